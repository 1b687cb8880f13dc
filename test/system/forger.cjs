// An engine that writes what its prompt says, byte for byte: a JSON list of `{fd, base64, times}`. For tests of what the
// spawner takes from a program that lies.
const fs = require('node:fs');

const job = JSON.parse(fs.readFileSync(0, 'utf8'));

function write(fd, bytes) {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += fs.writeSync(fd, bytes, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') process.exit(error.code === 'EPIPE' ? 3 : 4);
    }
  }
}

for (const { fd, base64, times = 1 } of JSON.parse(job.prompt)) {
  const bytes = Buffer.from(base64, 'base64');
  for (let time = 0; time < times; time += 1) write(fd, bytes);
}
process.exit(0);

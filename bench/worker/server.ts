// A model server in a process of its own: answers every request of one scenario in one wire format. Prints its port.
//
//   node server.ts WIRE SCENARIO_JSON TOOL_JSON        TOOL: {name, arguments}
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Scenario } from './scenario.ts';
import { WIRES, type WireName } from './wires.ts';

const [wireName = 'chat', scenarioText = '{}', toolText = '{}'] = process.argv.slice(2);
const wire = WIRES[wireName as WireName];
const { rounds, deltas } = JSON.parse(scenarioText) as Scenario;
const tool = JSON.parse(toolText) as { name: string; arguments: string };
const answer = Buffer.from(wire.text(deltas));
const aside = Buffer.from(wire.text(1));

function answerTo(text: string): Buffer {
  const done = wire.toolResults(JSON.parse(text));
  if (done === null) return aside;
  return done < rounds ? Buffer.from(wire.call({ id: `call_${done}`, ...tool })) : answer;
}

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const body = Buffer.concat(chunks).toString();
    if (request.method !== 'POST' || body === '') return void response.writeHead(404).end('{}');
    if (request.url?.includes('count_tokens')) return void response.end('{"input_tokens":10}');
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(answerTo(body));
  });
});
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));

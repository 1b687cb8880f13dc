// The measured agents: ours and its peers, each as the command line of one headless run against a model server.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { WireName } from './wires.ts';

export interface Run {
  argv: string[];
  env: Record<string, string>;
}

export interface Agent {
  name: string;
  /** Package and version that are installed beside the repository; absent: ours. */
  packages?: string[];
  wire: WireName;
  /** The tool that runs a command line, and its arguments. */
  tool(command: string): { name: string; arguments: string };
  /** `home` is an empty directory of its own, `bin` where the peers' commands are. */
  run(at: { url: string; home: string; bin: string; prompt: string }): Run;
}

const WORKER = join(import.meta.dirname, '../../worker/dist/djinn.cjs');
const KEY = 'sk-bench';
const tool = (name: string, values: Record<string, unknown>) => ({ name, arguments: JSON.stringify(values) });

export const AGENTS: Agent[] = [
  {
    name: 'djinn',
    wire: 'chat',
    tool: (command) => tool('bash', { command }),
    run: ({ url, home, prompt }) => ({
      argv: [process.execPath, WORKER, '-p', prompt],
      env: { DJINN_API_KEY: KEY, DJINN_API_BASE: `${url}/v1`, DJINN_MODEL: 'fake', DJINN_HOME: home },
    }),
  },
  {
    name: 'Codex',
    packages: ['@openai/codex@0.171.0'],
    wire: 'responses',
    tool: (command) => tool('exec_command', { cmd: command, yield_time_ms: 30_000 }),
    run: ({ url, home, bin, prompt }) => {
      const provider = `{name="fake",base_url="${url}/v1",wire_api="responses",env_key="BENCH_KEY"}`;
      // Without these it waits at its end for measurements of its own that cannot be sent.
      const quiet = ['analytics.enabled=false', 'otel.metrics_exporter="none"'];
      const settings = [
        'model="fake"',
        'model_provider="fake"',
        `model_providers.fake=${provider}`,
        ...quiet,
      ];
      return {
        argv: [
          ...[join(bin, 'codex'), 'exec', '--json', '--skip-git-repo-check'],
          ...[
            '--dangerously-bypass-approvals-and-sandbox',
            ...settings.flatMap((one) => ['-c', one]),
            prompt,
          ],
        ],
        env: { CODEX_HOME: home, BENCH_KEY: KEY },
      };
    },
  },
  {
    name: 'Claude Code',
    packages: ['@anthropic-ai/claude-code@2.1.197'],
    wire: 'messages',
    tool: (command) => tool('Bash', { command, description: 'runs it' }),
    run: ({ url, bin, prompt }) => ({
      argv: [
        ...[join(bin, 'claude'), '-p', prompt, '--output-format', 'stream-json', '--verbose'],
        ...['--include-partial-messages', '--dangerously-skip-permissions'],
      ],
      env: {
        ...{ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: KEY, IS_SANDBOX: '1' },
        ...{ CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1' },
      },
    }),
  },
  {
    name: 'pi',
    packages: ['@mariozechner/pi-coding-agent@0.73.1'],
    wire: 'chat',
    tool: (command) => tool('bash', { command }),
    run: ({ url, home, bin, prompt }) => {
      const model = { id: 'fake', name: 'fake', contextWindow: 128_000, maxTokens: 8192 };
      const provider = { baseUrl: `${url}/v1`, api: 'openai-completions', apiKey: KEY, models: [model] };
      writeFileSync(join(home, 'models.json'), JSON.stringify({ providers: { fake: provider } }));
      return {
        argv: [join(bin, 'pi'), '--mode', 'json', '-p', '--model', 'fake/fake', prompt],
        env: { PI_CODING_AGENT_DIR: home, PI_OFFLINE: '1', PI_TELEMETRY: '0' },
      };
    },
  },
  {
    name: 'Qwen Code',
    packages: ['@qwen-code/qwen-code@0.15.10'],
    wire: 'chat',
    tool: (command) => tool('run_shell_command', { command, is_background: false, description: 'runs it' }),
    run: ({ url, home, bin, prompt }) => {
      mkdirSync(join(home, '.qwen'));
      const settings = { telemetry: { enabled: false }, privacy: { usageStatisticsEnabled: false } };
      writeFileSync(join(home, '.qwen/settings.json'), JSON.stringify(settings));
      return {
        argv: [
          ...[
            join(bin, 'qwen'),
            '-p',
            prompt,
            '--output-format',
            'stream-json',
            '--include-partial-messages',
          ],
          ...['--approval-mode', 'yolo', '--auth-type', 'openai', '--model', 'fake'],
        ],
        env: { OPENAI_API_KEY: KEY, OPENAI_BASE_URL: `${url}/v1`, OPENAI_MODEL: 'fake' },
      };
    },
  },
];

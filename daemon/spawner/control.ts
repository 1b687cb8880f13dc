// Which of the connected clients may start and steer jobs: one djinnd, the first that asked, until its connection ends.
import { Refusal } from './refusal.ts';
import type { Client } from './server.ts';
import type { Method } from './wire.ts';

const STEERING: readonly Method[] = ['start', 'go', 'cancel', 'forget', 'prune'];

export interface Control {
  /** Throws Refusal `controlled` while another client has it. Idempotent. */
  take(client: Client): void;
  /** Throws Refusal `controlled` for a method that steers jobs while another client has control. */
  check(method: Method, client: Client): void;
}

export function createControl(): Control {
  let holder: Client | null = null;

  function refuseOther(client: Client): void {
    if (holder !== null && holder !== client) {
      throw new Refusal('controlled', 'another djinnd works with this spawner');
    }
  }

  return {
    take(client) {
      refuseOther(client);
      if (holder === client) return;
      holder = client;
      client.onClose(() => {
        holder = null;
      });
    },
    check(method, client) {
      if (STEERING.includes(method)) refuseOther(client);
    },
  };
}

// What the jobs need of the model gateway. The gateway implements it; jobs never import the gateway.

export interface GatewayJob {
  jobId: string;
  attempt: number;
  tenantId: string;
  /** Made by the spawner; the gateway listens on `model.sock` in it. */
  gatewayDir: string;
  /** The models that this job may use, the primary first. */
  models: string[];
}

export interface GatewaySeam {
  /** Listens for the job. Idempotent; replaces a socket that a dead predecessor left. */
  open(job: GatewayJob): Promise<void>;
  /** Ends what is open for the job; a job that is not open is no error. */
  close(jobId: string): Promise<void>;
}

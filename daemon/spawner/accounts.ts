// The system users of tenants.
export interface Account {
  user: string;
  uid: number;
  gid: number;
}

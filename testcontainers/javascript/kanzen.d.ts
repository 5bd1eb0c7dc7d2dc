import { AbstractStartedContainer, GenericContainer } from 'testcontainers';

/** A Kubernetes API server, which is ready when start() returns. */
export declare class KanzenContainer extends GenericContainer {
  constructor(image: string);
  /** Adds flags of "kanzen serve", such as '--event-ttl=1m'. */
  withFlags(...flags: string[]): this;
  /** Has the server serve control planes below its own, which createPlane makes. */
  withPlanes(): this;
  start(): Promise<StartedKanzenContainer>;
}

export declare class StartedKanzenContainer extends AbstractStartedContainer {
  /** The kubeconfig of the server's administrator. */
  getKubeConfig(): string;
  /** Makes a control plane with objects, users and definitions of its own; returns the kubeconfig of its administrator. */
  createPlane(name: string): Promise<string>;
}

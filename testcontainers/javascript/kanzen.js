// kanzen, a Kubernetes API server, in a container of testcontainers:
//
//	const server = await new KanzenContainer('kanzen:latest').withFlags('--emulated-version=1.36').start();
//	const config = new KubeConfig();
//	config.loadFromString(server.getKubeConfig());
import { AbstractStartedContainer, GenericContainer, Wait } from 'testcontainers';

const port = 6443;
const program = '/kanzen';

export class KanzenContainer extends GenericContainer {
  flags = [];

  constructor(image) {
    super(image);
    this.withExposedPorts(port).withWaitStrategy(Wait.forLogMessage(' serves Kubernetes ')); // it says so when /readyz is ok
  }

  // withFlags adds flags of "kanzen serve", such as '--event-ttl=1m'.
  withFlags(...flags) {
    this.flags.push(...flags);
    return this;
  }

  // withPlanes has the server serve control planes below its own, which createPlane makes.
  withPlanes() {
    return this.withFlags('--planes');
  }

  async beforeContainerCreated() {
    this.withCommand(['serve', '--bind-address=0.0.0.0', ...this.flags]);
  }

  async start() {
    const server = new StartedKanzenContainer(await super.start());
    server.kubeConfig = await server.readKubeConfig();
    return server;
  }
}

export class StartedKanzenContainer extends AbstractStartedContainer {
  // getKubeConfig returns the kubeconfig of the server's administrator, with the address that the engine gave to the server's port.
  getKubeConfig() {
    return this.kubeConfig;
  }

  // createPlane makes a control plane, a whole API with objects, users and definitions of its own, and returns the kubeconfig of its
  // administrator. The container needs withPlanes.
  async createPlane(name) {
    const plane = JSON.stringify({ apiVersion: 'planes.kanzen.io/v1', kind: 'Plane', metadata: { name } });
    const target = `/tmp/${encodeURIComponent(name)}.json`; // a command that runs in a container gets no standard input
    await this.copyContentToContainer([{ content: plane, target, mode: 0o644 }]);
    for (let tries = 1; ; tries++) { // planes are served soon after the server is ready
      try {
        await this.run('kubectl', 'create', '-f', target);
        break;
      } catch (err) {
        if (tries === 50 || !/no matches for kind|could not find the requested resource/.test(err.message)) throw err;
      }
    }
    return this.readKubeConfig('--plane', name);
  }

  async readKubeConfig(...flags) {
    return moved(await this.run('kubeconfig', ...flags), `${this.getHost()}:${this.getMappedPort(port)}`);
  }

  // run runs a command of kanzen in the container, and returns what it prints.
  async run(...args) {
    const { exitCode, output } = await this.exec([program, ...args]);
    if (exitCode !== 0) throw new Error(`kanzen ${args[0]}: exit code ${exitCode}: ${output}`);
    return output;
  }
}

// certified is a name that is in the certificate of every server. Where the server is from here is known too late for that.
const certified = 'localhost';

// moved returns a kubeconfig, as kanzen writes it, with another host and port of its server. The path stays: it names a plane.
export function moved(kubeConfig, endpoint) {
  const server = /^( *)server: https:\/\/[^/\s]+(.*)$/m;
  if (!server.test(kubeConfig)) throw new Error('a kubeconfig without the URL of a server');
  return kubeConfig.replace(server, (_, indent, path) => `${indent}server: https://${endpoint}${path}\n${indent}tls-server-name: ${certified}`);
}

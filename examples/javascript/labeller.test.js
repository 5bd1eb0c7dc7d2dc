// Tests with an API server of their own: npm install && npm test
import assert from 'node:assert';
import { test } from 'node:test';

import * as k8s from '@kubernetes/client-node';

import { run } from './labeller.js';

const config = new k8s.KubeConfig();
config.loadFromDefault(); // kanzen test has set KUBECONFIG
const api = config.makeApiClient(k8s.CoreV1Api);

async function namespace() {
  const created = await api.createNamespace({ body: { metadata: { generateName: 'test-' } } });
  return created.metadata.name;
}

test('labels', { timeout: 60_000 }, async () => {
  const ns = await namespace();
  const create = (name, data) => api.createNamespacedConfigMap({ namespace: ns, body: { metadata: { name }, data } });
  await create('a', { x: '1' });
  await create('b', { x: '1', y: '2' });
  const seen = {};
  await run(config, ns, (configMap) => {
    if (configMap.metadata.name in { a: 0, b: 0 }) seen[configMap.metadata.name] = configMap.metadata.labels.keys;
    return Object.keys(seen).length === 2;
  });
  assert.deepStrictEqual(seen, { a: '1', b: '2' });
});

test('a name that is none is refused', async () => {
  const ns = await namespace();
  await assert.rejects(api.createNamespacedConfigMap({ namespace: ns, body: { metadata: { name: 'A_B' } } }), (err) => {
    assert.strictEqual(err.code, 422);
    assert.match(JSON.stringify(err.body), /metadata\.name/);
    return true;
  });
});

// kanzen test -- node kanzen.test.js
(async () => {
  const assert = require('node:assert');
  const k8s = await import(require.resolve('@kubernetes/client-node'));
  const config = new k8s.KubeConfig();
  config.loadFromDefault();
  const v1 = config.makeApiClient(k8s.CoreV1Api);
  await v1.createNamespacedConfigMap({ namespace: 'default', body: { metadata: { name: 'from-javascript' }, data: { a: 'b' } } });
  const got = await v1.readNamespacedConfigMap({ namespace: 'default', name: 'from-javascript' });
  assert.deepStrictEqual(got.data, { a: 'b' });
  console.log('javascript: ok');
})().catch((err) => { console.error(err); process.exit(1); });

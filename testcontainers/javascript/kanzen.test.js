// npm install && npm test; with the name of an image in $KANZEN_IMAGE, and a container engine, also with a server.
import assert from 'node:assert';
import https from 'node:https';
import { test } from 'node:test';

import { KanzenContainer, moved } from './kanzen.js';

const image = process.env.KANZEN_IMAGE;

test('another address of a server', () => {
  const kubeConfig = (server) => `clusters:\n- cluster:\n    server: ${server}\n    tls-server-name: localhost\n  name: kanzen\nkind: Config\n`;
  const written = (server) => kubeConfig(server).replace('    tls-server-name: localhost\n', '');
  assert.equal(moved(written('https://10.0.0.2:6443'), 'engine:32768'), kubeConfig('https://engine:32768'));
  assert.equal(moved(written('https://[fd00::2]:6443/planes/a'), 'engine:32768'), kubeConfig('https://engine:32768/planes/a'));
  assert.throws(() => moved('kind: Config\n', 'engine:32768'), /without the URL/);
});

// ask makes a request as the user of a kubeconfig.
function ask(kubeConfig, method, path, body) {
  const value = (key) => kubeConfig.match(new RegExp(`^ *${key}: (.*)$`, 'm'))[1];
  const [ca, cert, key] = ['certificate-authority-data', 'client-certificate-data', 'client-key-data'].map((k) => Buffer.from(value(k), 'base64'));
  return new Promise((resolve, reject) => {
    const request = https.request(value('server') + path, { method, ca, cert, key, servername: value('tls-server-name'), agent: false, headers: { 'Content-Type': 'application/json' } }, (answer) => {
      let text = '';
      answer.on('data', (more) => (text += more));
      answer.on('end', () => resolve({ status: answer.statusCode, body: JSON.parse(text) }));
    });
    request.on('error', reject);
    request.end(body && JSON.stringify(body));
  });
}

test('a server with a flag and a plane', { skip: !image && '$KANZEN_IMAGE names no image', timeout: 120_000 }, async () => {
  const server = await new KanzenContainer(image).withFlags('--emulated-version=1.36').withPlanes().start();
  try {
    const root = server.getKubeConfig();
    const { body } = await ask(root, 'GET', '/version');
    assert.equal(body.emulationMinor, '36');
    const plane = await server.createPlane('team-a');
    assert.equal((await ask(plane, 'POST', '/api/v1/namespaces', { metadata: { name: 'shop' } })).status, 201);
    assert.equal((await ask(plane, 'GET', '/api/v1/namespaces/shop')).status, 200);
    assert.equal((await ask(root, 'GET', '/api/v1/namespaces/shop')).status, 404);
    await assert.rejects(server.createPlane('team-a'), /already exists/);
  } finally {
    await server.stop();
  }
});

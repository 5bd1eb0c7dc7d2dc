// An operator in a few lines: it labels the ConfigMaps of a namespace with the number of their keys.
import * as k8s from '@kubernetes/client-node';

export const keys = (configMap) => String(Object.keys(configMap.data ?? {}).length);

// run labels what is there and what comes, until stop(configMap) says that this was the last one.
export function run(config, namespace, stop) {
  const api = config.makeApiClient(k8s.CoreV1Api);
  return new Promise((resolve, reject) => {
    const seen = async (type, configMap) => {
      if (type !== 'ADDED' && type !== 'MODIFIED') return;
      const name = configMap.metadata.name;
      if (configMap.metadata.labels?.keys !== keys(configMap)) {
        const body = [{ op: 'add', path: '/metadata/labels', value: { ...configMap.metadata.labels, keys: keys(configMap) } }];
        configMap = await api.patchNamespacedConfigMap({ name, namespace, body });
      }
      if (!stop(configMap)) return;
      resolve();
      (await watching).abort();
    };
    const watching = new k8s.Watch(config).watch(`/api/v1/namespaces/${namespace}/configmaps`, {},
      (type, object) => seen(type, object).catch(reject),
      (err) => reject(err ?? new Error('the watch has ended')));
    watching.catch(reject);
  });
}

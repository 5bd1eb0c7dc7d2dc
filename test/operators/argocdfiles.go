//go:build linux

package main

// argoWeb is a deployment and a service.
const argoWeb = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "dev.local/web:v1", envFrom: [{configMapRef: {name: words}}], ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
`

// argoConfigMap is one with data, in a wave.
func argoConfigMap(name, wave, data string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", annotations: {argocd.argoproj.io/sync-wave: \"" + wave + "\"}}\ndata: {" + data + "}\n"
}

// argoHook is a job that runs before or after a sync, and goes when it has succeeded.
func argoHook(name, phase string) string {
	return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: " + name + ", annotations: {argocd.argoproj.io/hook: " + phase + ", argocd.argoproj.io/hook-delete-policy: HookSucceeded}}\n" +
		"spec: {template: {spec: {restartPolicy: Never, containers: [{name: job, image: dev.local/job:v1}]}}}\n"
}

// argoFiles are what the git repository has at first: a folder for each application.
var argoFiles = map[string]string{
	"manifests/web.yaml":      argoWeb,
	"manifests/settings.yaml": argoConfigMap("settings", "0", "word: hello"),
	"manifests/old.yaml":      argoConfigMap("old", "0", ""),

	"chart/Chart.yaml":  "apiVersion: v2\nname: web\nversion: 1.0.0\n",
	"chart/values.yaml": "replicas: 1\n",
	"chart/templates/web.yaml": `
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-web, namespace: {{ .Release.Namespace }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: web, image: "dev.local/web:v1"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-facts}
data:
  version: "{{ .Capabilities.KubeVersion.Version }}"
  applications: "{{ .Capabilities.APIVersions.Has "argoproj.io/v1alpha1/Application" }}"
`,

	"kustomization/base/web.yaml": argoWeb,
	"kustomization/base/kustomization.yaml": `
resources: [web.yaml]
configMapGenerator: [{name: words, literals: [word=hello]}]
`,
	"kustomization/production/kustomization.yaml": `
resources: [../base]
namePrefix: production-
images: [{name: dev.local/web, newTag: v2}]
`,

	"waves/before.yaml": argoHook("before", "PreSync"),
	"waves/after.yaml":  argoHook("after", "PostSync"),
	"waves/first.yaml":  argoConfigMap("first", "-1", ""),
	"waves/web.yaml":    argoWeb,
	"waves/last.yaml":   argoConfigMap("last", "1", ""),

	"definition/widgets.yaml": `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, default: 3}, color: {type: string}}}
          status: {type: object, properties: {phase: {type: string}}}
`,
	"definition/widget.yaml": "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: one}\nspec: {color: red}\n",

	"shared/settings.yaml": argoConfigMap("settings", "0", "word: hello"),

	"taken/settings.yaml": argoConfigMap("settings", "0", "word: hello"),

	"scaled/web.yaml": argoWeb,

	"replaced/settings.yaml": "immutable: true\n" + argoConfigMap("settings", "0", "word: hello"),

	"manual/settings.yaml": argoConfigMap("settings", "0", "word: hello"),

	"refused/web.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 123456}]}\n",

	"own/settings.yaml": argoConfigMap("settings", "0", ""),
	"own/token.yaml":    "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\n",

	"fleet/north/settings.yaml": argoConfigMap("north", "0", ""),
	"fleet/south/settings.yaml": argoConfigMap("south", "0", ""),
}

{{- define "kanzen.name" -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "kanzen.selector" -}}
app.kubernetes.io/name: kanzen
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kanzen.labels" -}}
{{ include "kanzen.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* The pod of a server, the same whether its data is on its volume or in an etcd cluster. */}}
{{- define "kanzen.pod" -}}
metadata:
  labels: {{- include "kanzen.labels" . | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "kanzen.name" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 75
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  containers:
  - name: kanzen
    image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args:
    - serve
    - --bind-address=0.0.0.0
    - --advertise-address=$(POD_IP)
    - --external-hostname={{ include "kanzen.name" . }}.{{ .Release.Namespace }}.svc
    - --tls-san={{ prepend .Values.hostnames (printf "%s.%s.svc.cluster.local" (include "kanzen.name" .) .Release.Namespace) | join "," }}
    - --logging-format=json
    {{- with .Values.etcd.servers }}
    - --etcd-servers={{ join "," . }}
    - --cluster-key-file=/cluster-key/cluster.key
    # Until the service has stopped to send new connections here.
    - --shutdown-delay-duration=10s
    {{- end }}
    {{- if .Values.etcd.tlsSecret }}
    - --etcd-cafile=/etcd/ca.crt
    - --etcd-certfile=/etcd/tls.crt
    - --etcd-keyfile=/etcd/tls.key
    {{- end }}
    {{- range .Values.flags }}
    - {{ . | quote }}
    {{- end }}
    env:
    # Also of the commands that somebody runs in the pod.
    - name: KANZEN_DATA_DIR
      value: /data/kanzen
    - name: POD_IP
      valueFrom: {fieldRef: {fieldPath: status.podIP}}
    ports: [{name: https, containerPort: 6443}]
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    resources: {{- toYaml .Values.resources | nindent 6 }}
    startupProbe: {httpGet: {path: /livez, port: https, scheme: HTTPS}, periodSeconds: 1, failureThreshold: 120, timeoutSeconds: 10}
    livenessProbe: {httpGet: {path: /livez, port: https, scheme: HTTPS}, periodSeconds: 10, failureThreshold: 8, timeoutSeconds: 15}
    readinessProbe: {httpGet: {path: /readyz, port: https, scheme: HTTPS}, periodSeconds: 2, failureThreshold: 3, timeoutSeconds: 15}
    volumeMounts:
    - {name: data, mountPath: /data}
    {{- if .Values.etcd.servers }}
    - {name: cluster-key, mountPath: /cluster-key, readOnly: true}
    {{- end }}
    {{- if .Values.etcd.tlsSecret }}
    - {name: etcd, mountPath: /etcd, readOnly: true}
    {{- end }}
  {{- if .Values.etcd.servers }}
  volumes:
  - name: data # certificates of this server alone, which it makes anew
    emptyDir: {}
  - name: cluster-key
    secret: {secretName: {{ required "etcd.servers needs etcd.clusterKeySecret: the servers share their keys under it" .Values.etcd.clusterKeySecret }}, defaultMode: 0440}
  {{- with .Values.etcd.tlsSecret }}
  - name: etcd
    secret: {secretName: {{ . }}, defaultMode: 0440}
  {{- end }}
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "kanzen.selector" . | nindent 8 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* The release's name for its objects. */}}
{{- define "refrain.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | replace "." "-" | trunc 48 | trimSuffix "-" -}}
{{- end }}

{{/*
The release's name for objects outside its namespace. Two releases of one name, in two namespaces, do not meet
there; a namespace has no dot, so no two pairs read the same.
*/}}
{{- define "refrain.scopedName" -}}
{{- printf "%s.%s" .Release.Namespace (include "refrain.fullname" .) -}}
{{- end }}

{{- define "refrain.snapshotSecret" -}}
{{- include "refrain.fullname" . }}-snapshot
{{- end }}

{{- define "refrain.lease" -}}
{{- include "refrain.fullname" . }}-operator
{{- end }}

{{/* Labels that never change; (dict "root" $ "component" "router") */}}
{{- define "refrain.selectorLabels" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "refrain.labels" -}}
{{ include "refrain.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: refrain
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Labels of a pod: what selects it cannot be overridden. */}}
{{- define "refrain.podLabels" -}}
{{- $own := include "refrain.selectorLabels" . | fromYaml -}}
{{- $version := dict "app.kubernetes.io/version" .root.Chart.AppVersion "app.kubernetes.io/part-of" "refrain" -}}
{{- merge $own (index .root.Values .component).podLabels $version | toYaml -}}
{{- end }}

{{/* An image by tag or by digest; (dict "root" $ "component" "router") */}}
{{- define "refrain.image" -}}
{{- $values := .root.Values -}}
{{- $image := (index $values .component).image -}}
{{- $registry := default $values.image.registry $values.global.imageRegistry -}}
{{- $name := list $registry $image.repository | compact | join "/" -}}
{{- if $image.digest -}}
{{ $name }}@{{ $image.digest }}
{{- else -}}
{{ $name }}:{{ coalesce $image.tag $values.image.tag .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* What both pods say about where and as whom they run. */}}
{{- define "refrain.podSettings" -}}
{{- $values := .root.Values -}}
{{- $own := index $values .component -}}
{{- with default $values.imagePullSecrets $values.global.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $own.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Probes of the admin port. Liveness asks only whether the process answers, readiness whether it can serve. */}}
{{- define "refrain.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: admin}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end }}

{{/* The namespaces that are served, in a list under "names"; none for all. */}}
{{- define "refrain.namespaces" -}}
{{- if eq .Values.scope "Cluster" -}}
{{- if .Values.watchNamespaces -}}
{{- fail "watchNamespaces: with scope Cluster all namespaces are served; remove the list, or set scope to Namespaced" -}}
{{- end -}}
names: []
{{- else -}}
names: {{ prepend .Values.watchNamespaces .Release.Namespace | uniq | toJson }}
{{- end -}}
{{- end }}

{{/*
The rights of a component where Providers and Routes are served: a Role in each namespace, or one ClusterRole;
(dict "root" $ "component" "router" "rules" "…")
*/}}
{{- define "refrain.servedRoles" -}}
{{- $root := .root -}}
{{- $component := .component -}}
{{- $rules := .rules -}}
{{- $name := printf "%s-%s" (include "refrain.scopedName" $root) $component -}}
{{- $namespaces := (include "refrain.namespaces" $root | fromYaml).names -}}
{{- $kinds := ternary (list "Role" "RoleBinding") (list "ClusterRole" "ClusterRoleBinding") (gt (len $namespaces) 0) -}}
{{- range $namespace := default (list "") $namespaces }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ first $kinds }}
metadata:
  name: {{ $name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "refrain.labels" (dict "root" $root "component" $component) | nindent 4 }}
rules:
  {{- $rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ last $kinds }}
metadata:
  name: {{ $name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "refrain.labels" (dict "root" $root "component" $component) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ first $kinds }}
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "refrain.fullname" $root }}-{{ $component }}
    namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end }}

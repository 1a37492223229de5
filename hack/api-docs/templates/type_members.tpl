{{- define "type_members" -}}
{{- if eq .Name "metadata" -}}
As of every object of Kubernetes.
{{- else -}}
{{ markdownRenderFieldDoc .Doc | replace "<br />" " " | trim }}{{ range .Validation }}{{ template "limit" . }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "limit" -}}
{{- if eq . "Required: {}" }} **Required.**
{{- else if or (eq . "Optional: {}") (eq . "Type: string") (hasPrefix "Enum" .) (eq . "MinLength: 1") }}
{{- else }} {{ . }}.
{{- end -}}
{{- end -}}

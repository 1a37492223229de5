{{- define "type" -}}
{{- if markdownShouldRenderType . }}
### {{ .Name }}

{{ .Doc }}
{{ if .Members }}
| field | type | default | |
|---|---|---|---|
{{- if .GVK }}
| `apiVersion` | `{{ .GVK.Group }}/{{ .GVK.Version }}` | | |
| `kind` | `{{ .GVK.Kind }}` | | |
{{- end }}
{{- range .Members }}
| `{{ .Name }}` | {{ markdownRenderType .Type }} | {{ with .Default }}`{{ . }}`{{ end }} | {{ template "type_members" . }} |
{{- end }}
{{ else if .EnumValues }}
| value | |
|---|---|
{{- range .EnumValues }}
| `{{ .Name }}` | {{ markdownRenderFieldDoc .Doc | replace "<br />" " " | trim }} |
{{- end }}
{{ else if .Validation }}
{{- range .Validation }}{{ template "limit" . }}{{ end }}
{{ end }}
{{- end -}}
{{- end -}}

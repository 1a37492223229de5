{{- define "gvDetails" -}}
## {{ .GroupVersionString }}

{{ .Doc }}
{{- $gv := . }}
{{ range .SortedKinds }}
- {{ $gv.TypeForKind . | markdownRenderTypeLink }}
{{- end }}
{{ range .SortedTypes }}{{ template "type" . }}{{ end }}
{{- end -}}

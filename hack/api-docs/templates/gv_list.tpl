{{- define "gvList" -}}
# API reference

Generated from the comments in `api/` by `make generate`. What a manifest may not hold, beyond the limits given here,
the API server says when it refuses it.
{{ range . }}
{{ template "gvDetails" . }}
{{- end -}}
{{- end -}}

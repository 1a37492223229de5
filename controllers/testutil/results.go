package testutil

import "github.com/holdfast-dev/holdfast/contract"

// Result is what an agent hands back that succeeded at a task.
func Result(task contract.Task) contract.Result {
	result := contract.Result{Version: contract.Version, Verb: task.Verb}
	switch task.Verb {
	case contract.VerbDump:
		result.Artifact = Artifact()
	case contract.VerbUpload:
		result.Artifact, result.URL = Artifact(), "s3://"+task.Store.Bucket+"/"+task.Key
	case contract.VerbInspect:
		result.Source, result.Target = Source(), &contract.Target{
			ServerVersion: "16.4", ToolVersion: "17.2", Databases: []string{"orders"}, Existing: []string{"orders"},
		}
	case contract.VerbFetch:
		result.Source = Source()
	case contract.VerbCheck, contract.VerbDelete, contract.VerbLoad:
	}
	return result
}

// Artifact is what a dump yields.
func Artifact() *contract.Artifact {
	return &contract.Artifact{
		SizeBytes: 4096, UncompressedBytes: 16384, SHA256: digest, Format: "pgdump", Compression: "Zstd",
		ServerVersion: "16.4", ToolVersion: "17.2", Extension: ".pgdump.zst",
	}
}

// Source is what an inspection finds at SourceURL.
func Source() *contract.Source {
	return &contract.Source{
		SizeBytes: 4096, SHA256: digest, Format: "pgdump", Compression: "Zstd", ServerVersion: "16.4",
		Databases: []string{"orders"},
	}
}

const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// Failure is what an agent hands back that failed.
func Failure(verb contract.Verb, reason, message string) contract.Result {
	return contract.Result{Version: contract.Version, Verb: verb, Failure: &contract.Failure{Reason: reason, Message: message}}
}

package contract

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/engine"
)

func TestResultSurvivesEncoding(t *testing.T) {
	result := Result{Verb: VerbDump, Artifact: &Artifact{SizeBytes: 5, SHA256: "ab", Extension: ".pgdump.zst"}, Note: "a note"}
	got, err := DecodeResult(result.Encode())
	if err != nil || got.Verb != VerbDump || *got.Artifact != *result.Artifact || got.Note != "a note" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLongResultsFit(t *testing.T) {
	many := make([]string, 2000)
	for i := range many {
		many[i] = strings.Repeat("n", 60)
	}
	message := "begin " + strings.Repeat("ü\"", 20000) + " the end"
	for name, result := range map[string]Result{
		"a long message":  {Failure: &Failure{Reason: ReasonInternal, Message: message, Retryable: true}},
		"many databases":  {Source: &Source{Databases: many, SHA256: "ab"}},
		"many targets":    {Target: &Target{Databases: many, Existing: many}},
		"many of each":    {Source: &Source{Databases: many}, Target: &Target{Databases: many, Existing: many}, Note: message},
		"control letters": {Failure: &Failure{Reason: ReasonInternal, Message: strings.Repeat("\x01", 4000)}},
	} {
		raw := result.Encode()
		got, err := DecodeResult(raw)
		if err != nil || len(raw) > MaxResultBytes {
			t.Errorf("%s: %d bytes, %v", name, len(raw), err)
		}
		if result.Failure != nil && (got.Failure == nil || got.Failure.Reason != result.Failure.Reason || got.Failure.Retryable != result.Failure.Retryable) {
			t.Errorf("%s: the failure became %+v", name, got.Failure)
		}
	}
}

// A list of what a restore replaces that is cut would let the safety backup save too little.
func TestTargetsAreNeverCut(t *testing.T) {
	many := make([]string, 60)
	for i := range many {
		many[i] = strings.Repeat("n", 60)
	}
	got, err := DecodeResult(Result{Verb: VerbInspect, Target: &Target{Databases: many, Existing: many}}.Encode())
	if err != nil || got.Target != nil || got.Failure == nil || !strings.Contains(got.Failure.Message, "spec.database.names") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCutMiddleKeepsBothEnds(t *testing.T) {
	for most := range 80 {
		text := "begins " + strings.Repeat("äöü€", 30) + " ends"
		got := CutMiddle(text, most)
		if !utf8.ValidString(got) || most >= 8 && len(got) > most {
			t.Fatalf("at most %d: %q", most, got)
		}
	}
	if got := CutMiddle("begins and goes on and on and ends", 20); !strings.HasPrefix(got, "begin") || !strings.HasSuffix(got, "ends") {
		t.Errorf("%q", got)
	}
	if got := CutMiddle("short", 20); got != "short" {
		t.Errorf("%q", got)
	}
}

func TestResultsThatAreNot(t *testing.T) {
	for _, raw := range []string{"", "OOMKilled", `{"version": 99}`, `{}`, `[1]`} {
		if _, err := DecodeResult([]byte(raw)); err == nil {
			t.Errorf("%q is taken for a result", raw)
		}
	}
}

func TestTaskSurvivesEncoding(t *testing.T) {
	task := Task{Version: Version, Verb: VerbLoad, Database: &engine.Connection{Host: `h"'\`, Databases: []string{"-x", "ü"}}, Restore: &engine.RestoreOptions{OmitOwnership: true}}
	raw, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	var got Task
	if err := json.Unmarshal(raw, &got); err != nil || got.Database.Databases[0] != "-x" || !got.Restore.OmitOwnership {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzDecodeResult(f *testing.F) {
	f.Add(Result{Failure: &Failure{Reason: ReasonInternal, Message: "m"}}.Encode())
	f.Add([]byte(`{"version":1,"source":{"databases":["a"]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		result, err := DecodeResult(raw)
		if err != nil {
			return
		}
		again := result.Encode()
		if len(again) > MaxResultBytes {
			t.Errorf("%d bytes", len(again))
		}
		if twice, err := DecodeResult(again); err != nil || !bytes.Equal(twice.Encode(), again) {
			t.Errorf("%s does not come back (%v)", again, err)
		}
	})
}

package main

import (
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/engine"
)

func parseImages(args ...string) (images, error) {
	given := defaultImages()
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Var(given, "image", "")
	return given, flags.Parse(args)
}

func TestImagesOfEngines(t *testing.T) {
	given, err := parseImages("--image=PostgreSQL=registry.shop:5000/postgres:16", "--image", "MariaDB=mariadb@sha256:00ff")
	if err != nil || given[v1alpha1.EnginePostgreSQL] != "registry.shop:5000/postgres:16" || given[v1alpha1.EngineMariaDB] != "mariadb@sha256:00ff" {
		t.Errorf("%v (%v)", given, err)
	}
	given, err = parseImages("--image=MariaDB=mariadb:10.11")
	if err != nil || given[v1alpha1.EnginePostgreSQL] != "postgres:17" || given[v1alpha1.EngineMariaDB] != "mariadb:10.11" {
		t.Errorf("one given, the others by default: %v (%v)", given, err)
	}
	for _, wrong := range []string{"postgres:17", "PostgreSQL=", "Oracle=oracle:23", "postgresql=postgres:17"} {
		if _, err := parseImages("--image=" + wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		} else if !strings.Contains(err.Error(), "PostgreSQL") {
			t.Errorf("%q: the error shows no way: %v", wrong, err)
		}
	}
}

// Every engine of the build can be used without any flag: an image is named, or none is needed.
func TestEveryEngineHasAnImage(t *testing.T) {
	for _, each := range engine.All() {
		image, served := defaultImages()[v1alpha1.Engine(each.Name())]
		if !served || image != each.DefaultImage() {
			t.Errorf("engine %s has the image %q (served: %t), want %q", each.Name(), image, served, each.DefaultImage())
		}
	}
	if text := defaultImages().String(); strings.Contains(text, "=,") || strings.HasSuffix(text, "=") {
		t.Errorf("an engine that needs no image is shown with an empty one: %s", text)
	}
}

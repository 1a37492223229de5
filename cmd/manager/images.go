package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/engine"
)

// images are the engines that this build serves, with the images of their client tools: the flag --image.
type images map[v1alpha1.Engine]string

// defaultImages are those that the engines name themselves.
func defaultImages() images {
	defaults := images{}
	for _, each := range engine.All() {
		defaults[v1alpha1.Engine(each.Name())] = each.DefaultImage()
	}
	return defaults
}

// String lists the images as they are given. An engine that needs no client tools has none.
func (i images) String() string {
	var given []string
	for name, image := range i {
		if image != "" {
			given = append(given, string(name)+"="+image)
		}
	}
	slices.Sort(given)
	return strings.Join(given, ",")
}

// Set takes one ENGINE=IMAGE.
func (i images) Set(given string) error {
	name, image, found := strings.Cut(given, "=")
	if !found || image == "" {
		return fmt.Errorf("%q is not ENGINE=IMAGE, such as PostgreSQL=postgres:17", given)
	}
	if _, served := i[v1alpha1.Engine(name)]; !served {
		return fmt.Errorf("engine %q is not served by this build: it serves %v", name, engine.Names())
	}
	i[v1alpha1.Engine(name)] = image
	return nil
}

// Package rbac_test keeps a promise about the manifests beside it: the operator never reads a Secret.
package rbac_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// role is what a Role and a ClusterRole have in common.
type role struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Rules []rbacv1.PolicyRule `json:"rules"`
}

func TestNoRoleTouchesSecrets(t *testing.T) {
	names := []string{}
	for _, r := range readRoles(t) {
		names = append(names, r.Metadata.Name)
		for _, rule := range r.Rules {
			if err := checkRule(rule); err != nil {
				t.Errorf("%s %s: %v", r.Kind, r.Metadata.Name, err)
			}
		}
	}
	for _, name := range []string{"holdfast-manager", "holdfast-leader-election", "holdfast-view", "holdfast-edit"} {
		if !slices.Contains(names, name) {
			t.Errorf("role %s is missing among %v", name, names)
		}
	}
}

func TestUsersCannotForgeStatus(t *testing.T) {
	for _, r := range readRoles(t) {
		if r.Metadata.Name != "holdfast-view" && r.Metadata.Name != "holdfast-edit" {
			continue
		}
		for _, rule := range r.Rules {
			for _, resource := range rule.Resources {
				if strings.Contains(resource, "/") {
					t.Errorf("%s grants %s: only the operator writes it", r.Metadata.Name, resource)
				}
			}
		}
	}
}

func TestCheckRule(t *testing.T) {
	cases := map[string]struct {
		rule    rbacv1.PolicyRule
		refused bool
	}{
		"jobs":                 {rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"get"}}, false},
		"secrets":              {rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "secrets"}, Verbs: []string{"list"}}, true},
		"a secret by name":     {rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"a"}, Verbs: []string{"get"}}, true},
		"every resource":       {rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"*"}, Verbs: []string{"get"}}, true},
		"every group":          {rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"jobs"}, Verbs: []string{"get"}}, true},
		"every verb":           {rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"*"}}, true},
		"a way around by exec": {rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create"}}, true},
		"a way around by role": {rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, Verbs: []string{"create"}}, true},
	}
	for name, test := range cases {
		if err := checkRule(test.rule); (err != nil) != test.refused {
			t.Errorf("%s: got %v, want refused: %t", name, err, test.refused)
		}
	}
}

// checkRule refuses what grants Secrets, by name or by wildcard, and what leads around that.
func checkRule(rule rbacv1.PolicyRule) error {
	if slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.Resources, "*") || slices.Contains(rule.Verbs, "*") {
		return fmt.Errorf("a wildcard grants more than is needed: %v", rule)
	}
	if slices.Contains(rule.APIGroups, rbacv1.GroupName) {
		return fmt.Errorf("who writes roles can grant itself Secrets: %v", rule)
	}
	for _, resource := range rule.Resources {
		if slices.Contains([]string{"secrets", "pods/exec", "pods/attach", "serviceaccounts/token"}, resource) {
			return fmt.Errorf("verbs %v on %s", rule.Verbs, resource)
		}
	}
	return nil
}

func readRoles(t *testing.T) []role {
	t.Helper()
	paths, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var roles []role
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			var r role
			err := decoder.Decode(&r)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if strings.HasSuffix(r.Kind, "Role") {
				roles = append(roles, r)
			}
		}
	}
	return roles
}

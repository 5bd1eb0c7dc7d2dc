package kanzentest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// failuresEnv names the environment variable with the directory for failed tests.
const failuresEnv = "KANZENTEST_FAILURES"

// explainTimeout bounds how long a failed test waits for its objects.
const explainTimeout = 30 * time.Second

// explain writes what the server knows about a failed test, and says where.
func (s *Server) explain(t testing.TB) {
	dir := s.options.FailureDir
	if dir == "" {
		dir = os.Getenv(failuresEnv)
	}
	if dir != "" {
		dir = filepath.Join(dir, fileName(t.Name()))
	} else if f := flag.Lookup("test.artifacts"); f != nil && f.Value.String() == "true" {
		dir = t.ArtifactDir()
	} else {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), explainTimeout)
	defer cancel()
	if err := s.Dump(ctx, dir); err != nil {
		t.Logf("%v", err)
	}
	t.Logf("kanzentest: the requests and objects of the server are in %s", dir)
}

// Dump writes the record of requests and all objects to a directory, which it makes: requests.jsonl, and a YAML file for
// each object below objects/RESOURCE. What every server begins with and the values of secrets are left out.
func (s *Server) Dump(ctx context.Context, dir string) error {
	requests := s.Requests(Match{}, Match{Internal: true}) // before there are those of this func
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("kanzentest: %w", err)
	}
	var lines strings.Builder
	to := json.NewEncoder(&lines)
	for _, r := range requests {
		if err := to.Encode(r); err != nil {
			return fmt.Errorf("kanzentest: %w", err)
		}
	}
	errs := []error{os.WriteFile(filepath.Join(dir, "requests.jsonl"), []byte(lines.String()), 0o600)}
	errs = append(errs, s.dumpObjects(ctx, filepath.Join(dir, "objects")))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("kanzentest: %w", err)
	}
	return nil
}

func (s *Server) dumpObjects(ctx context.Context, dir string) error {
	cfg := s.Config()
	cfg.WarningHandler = rest.NoWarnings{} // it reads deprecated versions, too
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	lists, err := discovery.ServerPreferredResources(d)
	errs := []error{err} // some groups may be served by others, who do not answer
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if strings.Contains(r.Name, "/") || !strings.Contains(strings.Join(r.Verbs, " "), "list") || gv.Group == "" && r.Name == "componentstatuses" {
				continue
			}
			found, err := c.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				errs = append(errs, err)
				continue
			}
			folder := r.Name
			if gv.Group != "" {
				folder += "." + gv.Group
			}
			own := slices.DeleteFunc(found.Items, func(o unstructured.Unstructured) bool {
				rev, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
				return err == nil && rev <= s.first
			})
			errs = append(errs, writeObjects(filepath.Join(dir, folder), own))
		}
	}
	return errors.Join(errs...)
}

func writeObjects(dir string, objects []unstructured.Unstructured) error {
	if len(objects) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var errs []error
	for i := range objects {
		o := &objects[i]
		if o.GetKind() == "Secret" {
			unstructured.RemoveNestedField(o.Object, "data")
		}
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		name := o.GetName()
		if ns := o.GetNamespace(); ns != "" {
			name = ns + "_" + name
		}
		errs = append(errs, os.WriteFile(filepath.Join(dir, fileName(name)+".yaml"), text, 0o600))
	}
	return errors.Join(errs...)
}

// fileName makes a name fit for a file.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, name)
}

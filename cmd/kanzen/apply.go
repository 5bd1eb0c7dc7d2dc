package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
)

// applying is what `kanzen apply` and `kanzen plan` have in common.
type applying struct {
	asking
	files          []string
	recursive      bool
	manager        string
	forceConflicts bool
	consequences   bool // for plan
}

func applyCommand() *cobra.Command {
	var a applying
	var atomic bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIRECTORY|-",
		Short: "Apply manifests, all or nothing",
		Long: `Applies all manifests of files, directories and the standard input by
server-side apply, in one transaction. If one of them is refused, nothing is
written, and the reasons of all are told. Namespaces and definitions come first;
otherwise the order is that of the files.

  kanzen apply -f deploy/
  kustomize build . | kanzen apply -f -`,
		Args: cobra.NoArgs,
	}
	a.add(cmd)
	cmd.Flags().BoolVar(&atomic, "atomic", true, "All or nothing. Object by object is what kubectl apply does.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !atomic {
			return errors.New("--atomic: this command is for all or nothing; use kubectl apply for one object after another")
		}
		_, b, err := a.bundle(cmd, "")
		if err != nil {
			return err
		}
		if a.output == "json" {
			return printJSON(cmd.OutOrStdout(), b.Status)
		}
		for _, i := range b.Status.Items {
			if o, err := objectOf(i.Object.Raw); err == nil {
				tell(cmd.OutOrStdout(), "%s %s\n", calledObject(o), i.Result)
			}
		}
		tell(cmd.OutOrStdout(), "\n%d objects, in one transaction at resourceVersion %s.\n", len(b.Status.Items), b.Status.ResourceVersion)
		return nil
	}
	return cmd
}

func planCommand() *cobra.Command {
	var a applying
	cmd := &cobra.Command{
		Use:   "plan -f FILE|DIRECTORY|-",
		Short: "Show what `kanzen apply` would do",
		Long: `Applies all manifests to a copy of the control plane, which is thrown away, and
shows what has become of it: objects that are created and changed, with each
field, what is written besides, and what is refused. Webhooks, policies, quotas
and conversions take part; webhooks with side effects refuse, as in a dry run.
Then the controllers of the server act on the copy until they have nothing to do,
and what they write is shown apart: dependents that are deleted, for example.

  kanzen plan -f deploy/
  kanzen plan -f deploy/ -o json`,
		Args: cobra.NoArgs,
	}
	a.add(cmd)
	cmd.Flags().BoolVar(&a.consequences, "consequences", true, "Also show what controllers do afterwards.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, b, refused := a.bundle(cmd, "All")
		p := refusedPlan(refused)
		if p == nil {
			if refused != nil {
				return refused
			}
			var err error
			if p, err = planOf(cmd.Context(), s, b); err != nil {
				return err
			}
		}
		if a.output == "json" {
			return errors.Join(printJSON(cmd.OutOrStdout(), p), refused)
		}
		p.print(cmd.OutOrStdout())
		return refused
	}
	return cmd
}

func (a *applying) add(cmd *cobra.Command) {
	a.asking.add(cmd.Flags(), true)
	cmd.Flags().StringSliceVarP(&a.files, "filename", "f", nil, "Files, directories, or - for the standard input.")
	cmd.Flags().BoolVarP(&a.recursive, "recursive", "R", false, "Directories with those below them.")
	cmd.Flags().StringVar(&a.manager, "field-manager", "kanzen", "Manager of the fields that are applied.")
	cmd.Flags().BoolVar(&a.forceConflicts, "force-conflicts", false, "Take over fields of other managers.")
}

// bundle sends the manifests; dryRun is the parameter of that name.
func (a *applying) bundle(cmd *cobra.Command, dryRun string) (*asker, *bundlev1.Bundle, error) {
	s, err := a.open()
	if err != nil {
		return nil, nil, err
	}
	if len(a.files) == 0 {
		return nil, nil, errors.New("--filename: name the files with the manifests")
	}
	objects, err := a.read(cmd.InOrStdin())
	if err != nil {
		return nil, nil, err
	}
	b := &bundlev1.Bundle{}
	b.SetGroupVersionKind(bundlev1.GroupVersion().WithKind("Bundle"))
	b.Spec.Namespace, b.Spec.Consequences = a.namespace, a.consequences
	for _, o := range objects {
		raw, err := json.Marshal(o)
		if err != nil {
			return nil, nil, err
		}
		i := bundlev1.Item{Force: a.forceConflicts}
		i.Object.Raw = raw
		b.Spec.Items = append(b.Spec.Items, i)
	}
	query := url.Values{"fieldManager": {a.manager}, "fieldValidation": {metav1.FieldValidationStrict}}
	if dryRun != "" {
		query.Set("dryRun", dryRun)
	}
	err = s.ask(cmd.Context(), http.MethodPost, "/apis/"+bundlev1.GroupVersion().String()+"/bundles?"+query.Encode(), "", b, b)
	var refused *refusedError
	if errors.As(err, &refused) && refused.code == http.StatusNotFound && !strings.Contains(refused.Error(), "spec.items") {
		return nil, nil, errors.New("the server carries out no bundles (--extensions)")
	}
	return s, b, err
}

// read reads all manifests. Those that others depend on come first.
func (a *applying) read(stdin io.Reader) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	take := func(name string, r io.Reader) error {
		objects, err := manifests(r)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, objects...)
		return nil
	}
	for _, name := range a.files {
		if name == "-" {
			if err := take("standard input", stdin); err != nil {
				return nil, err
			}
			continue
		}
		files, err := a.below(name)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if err := take(file, bytes.NewReader(data)); err != nil {
				return nil, err
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there are no manifests in %s", strings.Join(a.files, ", "))
	}
	slices.SortStableFunc(out, func(x, y *unstructured.Unstructured) int { return rank(x) - rank(y) })
	return out, nil
}

// rank is lower for what others depend on.
func rank(o *unstructured.Unstructured) int {
	switch o.GetKind() {
	case "Namespace":
		return 0
	case "CustomResourceDefinition":
		return 1
	}
	return 2
}

// below returns the files with manifests that a name stands for.
func (a *applying) below(name string) (files []string, err error) {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return []string{name}, err
	}
	err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != name && !a.recursive:
			return fs.SkipDir
		case !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

// manifests reads the objects of a stream of YAML or JSON documents, and those of lists in it.
func manifests(r io.Reader) (out []*unstructured.Unstructured, err error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(r))
	for n := 1; ; n++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var content map[string]any
		if err := yaml.UnmarshalStrict(text, &content); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if len(content) == 0 {
			continue // only comments
		}
		o := &unstructured.Unstructured{Object: content}
		if o.GetAPIVersion() == "" || o.GetKind() == "" {
			return nil, fmt.Errorf("document %d has no apiVersion or no kind", n)
		}
		if !o.IsList() {
			out = append(out, o)
			continue
		}
		if err := o.EachListItem(func(i runtime.Object) error {
			out = append(out, i.(*unstructured.Unstructured))
			return nil
		}); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
	}
}

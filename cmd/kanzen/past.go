package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func getCommand() *cobra.Command {
	var a asking
	var at string
	var everywhere bool
	cmd := &cobra.Command{
		Use:   "get KIND[/NAME] --at MOMENT",
		Short: "Show objects as they were",
		Long: `Shows an object, or all of a kind, as they were at a moment: a time, a duration
(so long ago) or a resourceVersion. Of what is now, kubectl shows more.

  kanzen get deployments -n shop --at 2h
  kanzen get deployment/web -n shop --at 2026-01-02T15:04:05Z -o yaml`,
		Args: cobra.ExactArgs(1),
	}
	a.add(cmd.Flags(), true)
	cmd.Flags().Lookup("output").Usage = "Output format: json, yaml, or empty for a table."
	cmd.Flags().StringVar(&at, "at", "", "The moment; empty: now.")
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "Of all namespaces.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		format := a.output
		if a.output == "yaml" {
			a.output = "json"
		}
		s, o, err := a.object(cmd.Context(), args[0], everywhere)
		if err != nil {
			return err
		}
		o.at = cmp.Or(at, o.at)
		if format == "" {
			return s.showTable(cmd.Context(), cmd.OutOrStdout(), o)
		}
		var obj map[string]any
		if err := s.get(cmd.Context(), o.then(), &obj); err != nil {
			return err
		}
		if format == "json" {
			return printJSON(cmd.OutOrStdout(), obj)
		}
		return printYAML(cmd.OutOrStdout(), obj)
	}
	return cmd
}

// printYAML prints an object as YAML, with what is invisible escaped.
func printYAML(w io.Writer, obj any) error {
	var escaped bytes.Buffer
	if err := printJSON(&escaped, obj); err != nil {
		return err
	}
	text, err := yaml.JSONToYAML(escaped.Bytes())
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		tell(w, "%s\n", strings.TrimSuffix(line, "\n"))
	}
	return nil
}

// then is the path of the objects as they were.
func (o *called) then() string {
	if o.at == "" {
		return o.path()
	}
	return o.path() + "?" + url.Values{"at": {o.at}}.Encode()
}

// showTable prints objects in the columns that the server has for them.
func (a *asker) showTable(ctx context.Context, w io.Writer, o *called) error {
	var t metav1.Table
	if err := a.ask(ctx, http.MethodGet, o.then(), "application/json;as=Table;g=meta.k8s.io;v=v1", nil, &t); err != nil {
		return err
	}
	several := o.namespace == "" && o.resource.Scope == "Namespaced"
	out := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	if several {
		tell(out, "NAMESPACE\t")
	}
	for _, c := range t.ColumnDefinitions {
		if c.Priority == 0 {
			tell(out, "%s\t", strings.ToUpper(c.Name))
		}
	}
	tell(out, "\n")
	for _, row := range t.Rows {
		if several {
			var meta metav1.PartialObjectMetadata
			if err := json.Unmarshal(row.Object.Raw, &meta); err != nil {
				return fmt.Errorf("the server's table: %w", err)
			}
			tell(out, "%s\t", meta.Namespace)
		}
		for n, cell := range row.Cells {
			if n < len(t.ColumnDefinitions) && t.ColumnDefinitions[n].Priority == 0 {
				tell(out, "%v\t", cell)
			}
		}
		tell(out, "\n")
	}
	return out.Flush()
}

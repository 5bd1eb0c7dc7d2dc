// Command helm renders a chart with Helm's library as `helm template` does: the tests of release/chart need nothing else of Helm.
//
//	helm [-strict] CHART RELEASE NAMESPACE < values.yaml
//
// With -strict a value that the chart names and nobody gives is an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

func main() {
	strict := flag.Bool("strict", false, "refuse templates that name values that nobody gives")
	flag.Parse()
	if err := render(os.Stdout, os.Stdin, *strict, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// render writes the manifests of a chart in the order of their names. What Helm prints after an installation goes first, as comments.
func render(out io.Writer, in io.Reader, strict bool, args []string) error {
	if len(args) != 3 {
		return errors.New("the arguments are CHART RELEASE NAMESPACE")
	}
	chart, err := loader.Load(args[0])
	if err != nil {
		return err
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	values, err := common.ReadValues(text)
	if err != nil {
		return err
	}
	release := common.ReleaseOptions{Name: args[1], Namespace: args[2], Revision: 1, IsInstall: true}
	values, err = util.ToRenderValues(chart, values, release, nil) // also checks them against values.schema.json
	if err != nil {
		return err
	}
	files, err := engine.Engine{Strict: strict}.RenderWithContext(context.Background(), chart, values)
	if err != nil {
		return err
	}
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		text := strings.TrimSpace(files[name])
		switch {
		case path.Ext(name) == ".txt":
			text = "# " + strings.ReplaceAll(text, "\n", "\n# ")
		case path.Ext(name) != ".yaml" || text == "":
			continue
		}
		if _, err := fmt.Fprintf(out, "%s\n---\n", text); err != nil {
			return err
		}
	}
	return nil
}

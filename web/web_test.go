package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// most is how many bytes a browser may have to load for the page, compressed.
const most = 150 << 10

// TestPageIsFresh holds the page that is checked in against its sources. The bytes are the same on each machine, so that whoever reviews
// the sources has reviewed the page.
func TestPageIsFresh(t *testing.T) {
	files, err := bundle(".")
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	z := gzip.NewWriter(&all)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		same(t, filepath.Join(page, name), text)
		if bytes.Contains(text, []byte(here)) || bytes.Contains(text, []byte("sourceMappingURL")) {
			t.Errorf("%s says where it was made", name)
		}
		_, _ = z.Write(text) // a buffer takes all
	}
	_ = z.Close()
	if all.Len() > most {
		t.Errorf("the page has %d bytes compressed, more than %d", all.Len(), most)
	}
	entries, err := os.ReadDir(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()] == nil {
			t.Errorf("%s/%s is no file of the page", page, e.Name())
		}
	}
}

// TestAnswersAreFresh holds the types of the server's answers against the Go types.
func TestAnswersAreFresh(t *testing.T) {
	text, err := answers(recorder, request)
	if err != nil {
		t.Fatal(err)
	}
	same(t, typed, text)
	for _, want := range []string{"export interface Request extends Record {", "  steps?: Step[];", "  p50: string;", "  refusedBy: RefusedPlane;"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the types have no %q", want)
		}
	}
}

func same(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what its sources make: run make web", path)
	}
}

// TestPackagesArePinned has a changed file of a package stop the bundle.
func TestPackagesArePinned(t *testing.T) {
	all, err := readPins(".")
	if err != nil {
		t.Fatal(err)
	}
	if err := check(".", all); err != nil {
		t.Fatal(err)
	}
	all["uplot"].Files["dist/uPlot.esm.js"] = sum([]byte("another"))
	if err := check(".", all); err == nil || !strings.Contains(err.Error(), "packages/uplot/dist/uPlot.esm.js is not the file of uplot 1.6.32") {
		t.Errorf("a file that is another one: %v", err)
	}
	for name, p := range all {
		if _, ok := p.Files["LICENSE"]; !ok {
			t.Errorf("%s comes without its license", name)
		}
	}
}

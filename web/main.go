// Command web makes the console's page: it bundles the TypeScript in console/ and the packages in packages/ into the files that
// internal/observe/console embeds, and writes the types of the server's answers for it.
//
//	go run .          makes the page (also go generate ./internal/observe/console, make web)
//	go run . -fetch   gets the packages that packages/packages.json pins, by npm
//
// The same sources make the same bytes, on any machine.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// Where things are, seen from this folder.
const (
	page     = "../internal/observe/console/page"
	typed    = "console/answers.gen.ts"
	recorder = "../internal/observe/recorder/v1alpha1"
	request  = "../internal/request" // some types of the recorder are its
)

func main() {
	again := flag.Bool("fetch", false, "get the pinned packages anew, by npm")
	flag.Parse()
	if err := run(".", *again); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root string, again bool) error {
	if again {
		if err := fetch(root); err != nil {
			return err
		}
	}
	text, err := answers(filepath.Join(root, recorder), filepath.Join(root, request))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, typed), text, 0o644); err != nil { //nolint:gosec // it is no secret
		return err
	}
	files, err := bundle(root)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, page, name), text, 0o644); err != nil { //nolint:gosec // it is no secret
			return err
		}
	}
	return nil
}

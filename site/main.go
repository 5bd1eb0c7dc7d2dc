// Command site makes static pages of the documentation: README.md, CHANGELOG.md, SECURITY.md and docs/, with search, in dark and
// light. It needs no server: the pages work from a disk.
//
//	site -root .. -out ../bin/site [-version V] [-source URL]
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", "..", "directory of the repository")
	out := flag.String("out", "../bin/site", "directory to write the pages to; what is in it is replaced")
	version := flag.String("version", "", "version that the pages name")
	source := flag.String("source", "", "URL of the repository's files, for links to what is no page; if empty, these are not links")
	flag.Parse()
	n, err := build(*root, *out, settings{Version: *version, Source: *source})
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s\n", n, *out)
}

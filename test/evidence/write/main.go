// Write writes docs/evidence.json and docs/evidence.md from the files in docs/evidence. It is run in test/.
package main

import (
	"fmt"
	"os"

	"github.com/kanzen-io/kanzen/test/evidence"
)

func main() {
	asJSON, asMarkdown, err := evidence.Pages("../docs")
	if err == nil {
		err = os.WriteFile("../docs/evidence.json", asJSON, 0o644)
	}
	if err == nil {
		err = os.WriteFile("../docs/evidence.md", asMarkdown, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

package goldens

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
)

var (
	reTime     = regexp.MustCompile(`20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^" ,)]*( \+0000 UTC)?`)
	reRevision = regexp.MustCompile(`(?i)(resource ?version[^0-9\n]{0,12}|current: )\d+`)
	reRecord   = regexp.MustCompile(`\(\d+\)`)
)

// sentences returns what an answer says to people: its warnings, and the causes of a refusal or, without any, its message. Left
// out is what differs from run to run, the objects that are shown (kube-apiserver shows its internal types) and their order.
func sentences(resp *http.Response, body []byte) []string {
	said := slices.Clone(resp.Header.Values("Warning"))
	var s struct {
		Kind, Message string
		Details       struct {
			Causes []struct{ Field, Message string }
		}
	}
	if json.Unmarshal(body, &s) == nil && s.Kind == "Status" {
		for _, c := range s.Details.Causes {
			said = append(said, c.Field+": "+c.Message)
		}
		if len(s.Details.Causes) == 0 && resp.StatusCode >= 400 {
			said = append(said, s.Message)
		}
	}
	for i, text := range said {
		text = reSATVolume.ReplaceAllString(reUUID4.ReplaceAllString(withoutObjects(text), "<uuid>"), "kube-api-access-~5")
		text = reRevision.ReplaceAllString(reTime.ReplaceAllString(text, "<time>"), "$1<revision>")
		said[i] = reRecord.ReplaceAllString(text, "(<number>)")
	}
	slices.Sort(said)
	return said
}

// withoutObjects cuts the objects that are shown in a text, and the difference at its end.
func withoutObjects(text string) string {
	text, _, _ = strings.Cut(text, "\n@@ ")
	var out strings.Builder
	depth := 0
	for _, r := range text {
		switch {
		case r == '{':
			if depth++; depth == 1 {
				out.WriteString("{}")
			}
		case r == '}' && depth > 0:
			depth--
		case depth == 0:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// mark is a short hash of sentences: the recorded cases hold no sentence.
func mark(said []string) string {
	if len(said) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(said, "\n")))
	return hex.EncodeToString(sum[:6])
}

// readMarks reads what writeMarks has written: the marks by the id of a case.
func readMarks(file string) (map[string]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	marks := map[string]string{}
	for s := bufio.NewScanner(zr); ; {
		if !s.Scan() {
			return marks, s.Err()
		}
		mark, id, _ := strings.Cut(s.Text(), " ")
		marks[id] = mark
	}
}

func writeMarks(file string, marks map[string]string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	zw := gzip.NewWriter(f)
	for _, id := range slices.Sorted(maps.Keys(marks)) {
		if _, err := fmt.Fprintln(zw, marks[id], id); err != nil {
			return err
		}
	}
	if err := zw.Close(); err != nil {
		return err
	}
	return f.Close()
}

package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	goyaml "go.yaml.in/yaml/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/request"
)

// maxExpanded bounds the size of the JSON that YAML with aliases expands to, in
// bytes. It is the default limit of a body.
const maxExpanded = 3 << 20

// yamlToJSON converts a body. With check it also returns the errors of fields
// that occur more than once, which are lost in the conversion. YAML without such
// fields is parsed only once, because parsing is the most expensive part.
func yamlToJSON(data []byte, check bool) (doc []byte, strict []error, err error) {
	if isJSONToo(data) {
		if !check {
			return data, nil, nil
		}
		if _, strict, err := jsonobject.UnmarshalStrict(data); err == nil && len(strict) == 0 {
			return data, nil, nil
		}
	}
	if err := boundYAML(data); err != nil {
		return nil, nil, err
	}
	if check {
		if doc, err = yaml.YAMLToJSONStrict(data); err == nil {
			return doc, nil, nil
		}
		strict = []error{err}
	}
	doc, err = yaml.YAMLToJSON(data)
	return doc, strict, err
}

// yamlErrors begins the one error of the YAML parser that tells of all fields which occur more than once, a line for each.
const yamlErrors = "yaml: unmarshal errors:\n"

// warnStrict warns of unknown and duplicate fields. A warning has no lines, so that each field gets its own.
func warnStrict(ctx context.Context, errs []error) {
	for _, err := range errs {
		for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), yamlErrors), "\n") {
			request.AddWarning(ctx, strings.TrimSpace(line))
		}
	}
}

// isJSONToo says that YAML is a JSON object, as most clients send it, that both
// parsers read alike: the JSON parser is far cheaper. It returns false where
// they may differ: for fractions, very long numbers, tabs, long names, and
// characters and escapes that YAML does not know.
func isJSONToo(data []byte) bool {
	if len(data) == 0 || data[0] != '{' || !json.Valid(data) || !utf8.Valid(data) {
		return false
	}
	for at := 0; at < len(data); at++ {
		switch c := data[at]; {
		case c == '"':
			end := endOfText(data, at)
			if end < 0 {
				return false
			}
			at = end
		case c == '.' || c == 'E' || c == '\t':
			return false
		case '0' <= c && c <= '9':
			begin := at
			for at+1 < len(data) && '0' <= data[at+1] && data[at+1] <= '9' {
				at++
			}
			if at-begin > 17 || at+1 < len(data) && data[at+1] == 'e' {
				return false
			}
		}
	}
	return true
}

// maxName is the longest name that the YAML parser accepts.
const maxName = 1000

// endOfText returns the position of a text's closing quote, or -1 if YAML may
// read the text differently than JSON.
func endOfText(data []byte, begin int) int {
	for at := begin + 1; at < len(data); at++ {
		switch c := data[at]; {
		case c == '"':
			if rest := bytes.TrimLeft(data[at+1:min(at+64, len(data))], " "); at-begin > maxName && (len(rest) == 0 || rest[0] == ':') {
				return -1
			}
			return at
		case c == '\\':
			if at++; data[at] == '/' || data[at] == 'u' && (data[at+1] == 'd' || data[at+1] == 'D' || data[at+1] == 'f' || data[at+1] == 'F') {
				return -1 // unknown to YAML, half of a surrogate pair, or not a character
			}
		case c == 0x7f || c == 0xc2 || c == 0xe2 || c == 0xef:
			return -1 // may begin a control character or a line separator
		}
	}
	return -1
}

// maxMarks bounds the characters in YAML that may begin or end a value. Values
// cost far more to parse than texts: 3 MiB of lists of digits took seconds and
// 350 MB.
const maxMarks = 500_000

// maxDirectives bounds the lines that begin with "%": the parser compares each
// with all earlier ones.
const maxDirectives = 16

// boundYAML refuses YAML whose cost of parsing is out of proportion to its
// length. That is a bad request, as for kube-apiserver, whose parser gives up on such YAML.
func boundYAML(data []byte) error {
	marks := 0
	for _, c := range []string{",", "\n", "\r", "[", "{", "? ", "- ", ": "} {
		marks += bytes.Count(data, []byte(c))
	}
	if marks > maxMarks {
		return apierrors.NewBadRequest(fmt.Sprintf("the YAML may hold %d values, as JSON it may hold more", maxMarks))
	}
	if n := bytes.Count(data, []byte("\n%")) + bytes.Count(data, []byte("\r%")); n > maxDirectives {
		return apierrors.NewBadRequest(fmt.Sprintf("the YAML may hold %d directives", maxDirectives))
	}
	return boundAliases(data)
}

// boundAliases refuses YAML whose aliases expand to too much JSON. The parser
// bounds the number of values but not their length, and it shares them; the
// JSON has a copy of each.
func boundAliases(data []byte) error {
	if !marks(data, '&') || !marks(data, '*') {
		return nil
	}
	var v any
	if err := goyaml.Unmarshal(data, &v); err != nil {
		return nil // the decoder reports the error
	}
	if left := afterJSON(v, maxExpanded); left < 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("the aliases in the YAML make it longer than %d bytes", maxExpanded))
	}
	return nil
}

// marks says whether data has the mark followed by a name. Inside a text it is
// a false alarm, which only costs a second parsing.
func marks(data []byte, mark byte) bool {
	for {
		at := bytes.IndexByte(data, mark)
		if at < 0 || at+1 == len(data) {
			return false
		}
		c := data[at+1]
		if c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' {
			return true
		}
		data = data[at+1:]
	}
}

// afterJSON returns how many of left bytes remain after a value is written as
// JSON; the result is negative if it does not fit.
func afterJSON(v any, left int) int {
	switch v := v.(type) {
	case map[any]any:
		left -= 2
		for key, value := range v {
			if left = afterJSON(value, afterJSON(key, left-2)); left < 0 {
				break
			}
		}
	case []any:
		left -= 2
		for _, item := range v {
			if left = afterJSON(item, left-1); left < 0 {
				break
			}
		}
	case string:
		if left -= len(v) + 2; left < 0 {
			break
		}
		for i := range len(v) {
			if c := v[i]; c < 0x20 || c == '<' || c == '>' || c == '&' {
				left -= len(`\u0000`) - 1
			} else if c == '"' || c == '\\' {
				left--
			}
		}
	case int:
		left -= len(strconv.Itoa(v))
	default:
		left -= len("false")
	}
	return left
}

package schema

import (
	"bufio"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

var errNoField = errors.New("does not refer to a valid field")

// LookUp resolves a path like .spec.size in a schema. With brackets, names may be written as in .spec['size']. It
// returns the path, and the schema at its end, or nil if that is unknown.
func LookUp(text string, s *props, brackets bool) (*field.Path, *props, error) {
	var path *field.Path
	step := func(name string) error {
		switch {
		case s == nil:
			return errNoField
		case len(s.Properties) > 0:
			p, ok := s.Properties[name]
			if !ok {
				return errNoField
			}
			path, s = path.Child(name), &p
		case s.AdditionalProperties != nil:
			path, s = path.Key(name), s.AdditionalProperties.Schema
		default:
			return errNoField
		}
		return nil
	}
	words := bufio.NewScanner(strings.NewReader(text))
	words.Split(splitPath)
	for words.Scan() {
		var name string
		switch words.Text() {
		case ".":
			if !words.Scan() {
				return nil, nil, errors.New("unexpected end of JSON path")
			}
			name = words.Text()
		case "[":
			if !brackets {
				return nil, nil, errors.New("array notation is not allowed")
			}
			var err error
			if name, err = quoted(words); err != nil {
				return nil, nil, err
			}
		default:
			return nil, nil, errors.New("expected [ or . but got: " + words.Text())
		}
		if err := step(name); err != nil {
			return nil, nil, err
		}
	}
	return path, s, nil
}

// quoted parses the rest of a name in brackets.
func quoted(words *bufio.Scanner) (string, error) {
	if !words.Scan() {
		return "", errors.New("unexpected end of JSON path")
	}
	text := words.Text()
	if len(text) < 2 || text[0] != '\'' || text[len(text)-1] != '\'' {
		return "", errors.New("expected single quoted string but got " + text)
	}
	var name strings.Builder
	for rest := text[1 : len(text)-1]; rest != ""; rest = rest[1:] {
		if rest[0] == '\\' {
			if len(rest) < 2 {
				return "", errors.New("invalid escape sequence")
			}
			i := strings.IndexByte(`abfnrtv'\`, rest[1])
			if i < 0 {
				return "", errors.New("invalid escape sequence " + rest[:2])
			}
			name.WriteByte("\a\b\f\n\r\t\v'\\"[i])
			rest = rest[1:]
			continue
		}
		name.WriteByte(rest[0])
	}
	if !words.Scan() || words.Text() != "]" {
		return "", errors.New("expected ]")
	}
	return name.String(), nil
}

// splitPath splits a path into delimiters and names.
func splitPath(data []byte, atEnd bool) (int, []byte, error) {
	if len(data) == 0 {
		return 0, nil, nil
	}
	if data[0] == '\'' {
		for i := 1; i < len(data); i++ {
			if data[i] == '\'' && data[i-1] != '\\' {
				return i + 1, data[:i+1], nil
			}
		}
	} else if i := strings.IndexAny(string(data), ".[]"); i == 0 {
		return 1, data[:1], nil
	} else if i > 0 {
		return i, data[:i], nil
	}
	if atEnd {
		return len(data), data, nil
	}
	return 0, nil, nil
}

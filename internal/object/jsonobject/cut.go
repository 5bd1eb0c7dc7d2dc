package jsonobject

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Cut returns a JSON document in which null replaces each value at one of the paths. Decoding the result takes a
// fraction of the time. A path consists of names with dots between them; "*" matches each item of a list:
// "spec.versions.*.schema". Data that is not JSON is returned unchanged.
func Cut(data []byte, paths ...string) []byte { return cut(data, false, paths) }

// Without returns a JSON document without the members at some paths, which are as those of Cut and end with a name.
func Without(data []byte, paths ...string) []byte { return cut(data, true, paths) }

func cut(data []byte, whole bool, paths []string) []byte {
	c := cutter{lexer: lexer{data: over(data), mode: raw}, whole: whole}
	for _, p := range paths {
		c.paths = append(c.paths, strings.Split(p, "."))
	}
	if !c.value(c.paths) {
		return data
	}
	return append(c.out, data[c.copied:]...)
}

// cutter copies a document without the parts that are cut.
type cutter struct {
	lexer
	whole  bool // members are cut with their names
	paths  [][]string
	out    []byte
	copied int // the length of data that has been copied or cut
}

// value skips a value, parts of which match the paths.
func (c *cutter) value(paths [][]string) bool {
	c.next()
	for _, p := range paths {
		if len(p) == 0 {
			c.out = append(append(c.out, c.data[c.copied:c.at]...), "null"...)
			ok := c.skip()
			c.copied = c.at
			return ok
		}
	}
	if len(paths) == 0 {
		return c.skip()
	}
	return c.each(func(name string, item bool) bool {
		var within [][]string
		name = unescaped(name)
		for _, p := range paths {
			if item && p[0] == "*" || !item && p[0] == name && p[0] != "*" {
				if len(p) == 1 && c.whole {
					return c.member()
				}
				within = append(within, p[1:])
			}
		}
		return c.value(within)
	})
}

// member skips a value and cuts it with its name, and with one of the commas beside it.
func (c *cutter) member() bool {
	c.out = append(c.out, c.data[c.copied:c.named]...)
	ok := c.skip()
	if c.next() == ',' {
		c.copied = c.at + 1
	} else {
		c.out = bytes.TrimSuffix(bytes.TrimRight(c.out, " \t\r\n"), []byte(","))
		c.copied = c.at
	}
	return ok
}

// unescaped returns a name that is as it was written.
func unescaped(name string) string {
	if strings.Contains(name, `\`) {
		_ = json.Unmarshal([]byte(`"`+name+`"`), &name)
	}
	return name
}

// each calls f before each member of an object or item of a list, which f must read. Other values have none.
func (l *lexer) each(f func(name string, item bool) bool) bool {
	switch l.next() {
	case '{':
		return l.members(func(name string) bool { return f(name, false) })
	case '[':
		return l.items(func() bool { return f("", true) })
	}
	return l.skip()
}

// Find returns the bytes of the value at a path of names, or nil. It does not read the rest, so data must be valid
// JSON, such as a stored document.
func Find(data []byte, path ...string) []byte {
	l := lexer{data: over(data), mode: raw}
	for _, wanted := range path {
		found := false
		if l.next() == '{' {
			l.members(func(name string) bool {
				found = name == wanted
				return !found && l.skip()
			})
		}
		if !found {
			return nil
		}
	}
	l.next()
	begin := l.at
	if !l.skip() {
		return nil
	}
	return data[begin:l.at]
}

// Members calls each with the fields of an object, or the items of a list, which have no name, and the bytes of the
// value. Names are raw, without the quotes. It returns false if data is neither; data must be valid JSON.
func Members(data []byte, each func(name, value []byte)) bool {
	l := lexer{data: over(data), mode: raw}
	if c := l.next(); c != '{' && c != '[' {
		return false
	}
	return l.each(func(name string, item bool) bool {
		var of []byte
		if !item {
			of = data[l.named+1:][:len(name)]
		}
		l.next()
		begin := l.at
		ok := l.skip()
		each(of, data[begin:l.at])
		return ok
	})
}

package jsonobject

// Fields are fields by name, and what is wanted below each: an empty one is all of it.
type Fields map[string]Fields

// Add adds a field by its path. What is wanted whole stays so.
func (f Fields) Add(path ...string) {
	below, ok := f[path[0]]
	switch {
	case ok && len(below) == 0:
	case len(path) == 1:
		f[path[0]] = Fields{}
	default:
		if !ok {
			below = Fields{}
			f[path[0]] = below
		}
		below.Add(path[1:]...)
	}
}

// AppendOnly appends a JSON document with only some fields to dst; fields are those of each item of a list. It returns false if data is
// no JSON.
func AppendOnly(dst, data []byte, fields Fields) ([]byte, bool) {
	p := picker{lexer: lexer{data: over(data), mode: raw}, from: data, out: dst}
	ok := p.value(fields)
	return p.out, ok
}

// picker copies parts of a document.
type picker struct {
	lexer
	from, out []byte
}

func (p *picker) value(fields Fields) bool {
	c := p.next()
	if len(fields) == 0 || c != '{' && c != '[' {
		begin := p.at
		ok := p.skip()
		p.out = append(p.out, p.from[begin:p.at]...)
		return ok
	}
	first := true
	p.out = append(p.out, c)
	ok := p.each(func(name string, item bool) bool {
		below := fields
		if !item {
			wanted := false
			if below, wanted = fields[name]; !wanted {
				return p.skip()
			}
		}
		if !first {
			p.out = append(p.out, ',')
		}
		if first = false; !item {
			p.out = append(append(p.out, p.from[p.named:][:len(name)+2]...), ':')
		}
		return p.value(below)
	})
	p.out = append(p.out, c+2) // } and ] are two after { and [
	return ok
}

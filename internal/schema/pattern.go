package schema

import (
	"regexp"
	"regexp/syntax"
	"sync"
)

// maxPatternWork bounds what one text may cost to match: the steps of the
// pattern's program times the bytes of the text, which is the worst case of
// the matcher. It is some seconds of work. What any real schema asks for is
// smaller by orders of magnitude.
const maxPatternWork = 1 << 31

// pattern is a regular expression, compiled on first use.
type pattern struct {
	text  string
	once  sync.Once
	re    *regexp.Regexp
	steps int
	err   error
}

// match says whether s matches. An error says why that cannot be known.
func (p *pattern) match(s string) (bool, error) {
	p.once.Do(p.compile)
	if p.err != nil {
		return false, p.err
	}
	if len(s) > maxPatternWork/max(p.steps, 1) {
		return false, errTooMuchWork
	}
	return p.re.MatchString(s), nil
}

func (p *pattern) compile() {
	if p.re, p.err = regexp.Compile(p.text); p.err != nil {
		return
	}
	parsed, err := syntax.Parse(p.text, syntax.Perl)
	if err != nil {
		p.err = err
		return
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		p.err = err
		return
	}
	p.steps = len(prog.Inst)
}

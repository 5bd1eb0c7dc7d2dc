package schema

import (
	"regexp"
	"regexp/syntax"
	"sync"
)

// maxPatternWork bounds the cost of matching one string: the steps of the pattern's program times the bytes of the
// string, the matcher's worst case. The bound is some seconds of work. Real schemas need orders of magnitude less.
const maxPatternWork = 1 << 31

// pattern is a regular expression, compiled on first use.
type pattern struct {
	text  string
	once  sync.Once
	re    *regexp.Regexp
	steps int
	err   error
}

// match reports whether s matches. It returns an error if it cannot decide.
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

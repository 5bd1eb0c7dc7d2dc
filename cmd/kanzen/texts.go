package main

import (
	"errors"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// checkTexts has the flags of a command and of those below it refuse what a slip of a script puts into a value: a line break
// (which a list would end at, without a word), another control character and, if strict, spaces around it.
func checkTexts(cmd *cobra.Command, strict bool) {
	check := func(f *pflag.Flag) {
		if _, done := f.Value.(interface{ checked() }); done || !strings.Contains(strings.ToLower(f.Value.Type()), "string") {
			return // numbers, times and addresses refuse it themselves
		}
		t := text{Value: f.Value, strict: strict && !strings.HasPrefix(f.Name, "oidc-")} // a prefix may be "oidc: "
		if s, ok := f.Value.(pflag.SliceValue); ok {
			f.Value = texts{t, s}
			if f.DefValue == "[]" { // which cobra leaves out of its help only for a type that it knows
				f.DefValue = ""
			}
			return
		}
		f.Value = t
	}
	cmd.Flags().VisitAll(check)
	cmd.PersistentFlags().VisitAll(check)
	for _, c := range cmd.Commands() {
		checkTexts(c, strict)
	}
}

// text is the value of a flag that is looked at before it is set.
type text struct {
	pflag.Value
	strict bool
}

// Set is part of pflag.Value.
func (t text) Set(s string) error {
	switch {
	case strings.ContainsAny(s, "\n\r"):
		return errors.New("it contains a line break; write the value on one line")
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("it contains a control character; remove that")
	case t.strict && strings.TrimSpace(s) != s:
		return errors.New("it begins or ends with a space; remove that")
	case t.strict && strings.Contains(t.Type(), "Slice") && (strings.Contains(s, ", ") || strings.Contains(s, " ,")):
		return errors.New("it contains a space beside a comma; remove that")
	}
	return t.Value.Set(s)
}

// texts is text for a list.
type texts struct {
	text
	pflag.SliceValue
}

// checked tells values that are looked at already: a flag of a parent is a flag of its commands, too.
func (text) checked() {}

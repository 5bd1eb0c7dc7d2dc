package matrix

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
)

const answers = "testdata/answers.jsonl.gz"

// line is one of the recording: a request with kube-apiserver's answer, or
// that the world is made anew and what was stored before.
type line struct {
	Request *request `json:"request,omitempty"`
	Answer  *answer  `json:"answer,omitempty"`
	Settle  bool     `json:"settle,omitempty"`
	// Stored is what differed from the world at its beginning; nil where the
	// two servers held different things already.
	Stored map[string]*recorded `json:"stored,omitempty"`
}

// recorded is an object as it was stored; empty, if it was gone.
type recorded struct{ Plain, Managed string }

// delta is what became of a world.
func delta(base, now state, apart bool) map[string]*recorded {
	if apart {
		return nil
	}
	out := map[string]*recorded{}
	for _, k := range now.difference(base) {
		out[k] = &recorded{}
		if o := now[k]; o != nil {
			out[k] = &recorded{o.plain, o.managed}
		}
	}
	return out
}

// with is a world after what became of it.
func (s state) with(changes map[string]*recorded) state {
	out := maps.Clone(s)
	for k, c := range changes {
		if c.Plain == "" {
			delete(out, k)
			continue
		}
		out[k] = &object{key: k, plain: c.Plain, managed: c.Managed}
	}
	return out
}

func write(lines []line) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	e := json.NewEncoder(z)
	for _, l := range lines {
		if err := e.Encode(l); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(answers, b.Bytes(), 0o644)
}

func read() ([]line, error) {
	data, err := os.ReadFile(answers)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var out []line
	for d := json.NewDecoder(bufio.NewReader(z)); ; {
		var l line
		if err := d.Decode(&l); err == io.EOF {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
}

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the unit in which the kernel tells processor time.
func ticksPerSecond() int64 {
	const clockTick = 17 // AT_CLKTCK
	aux, err := os.ReadFile("/proc/self/auxv")
	for ; err == nil && len(aux) >= 16; aux = aux[16:] {
		if binary.NativeEndian.Uint64(aux) == clockTick {
			return int64(binary.NativeEndian.Uint64(aux[8:]))
		}
	}
	return 100 // as on every Linux that Go runs on
}

// cpu is the processor time that the side's processes have used, in user and
// system mode, by the kernel's accounting.
func (s *side) cpu() (time.Duration, error) {
	if err := s.alive(); err != nil {
		return 0, err
	}
	var ticks int64
	for _, p := range s.procs {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			return 0, err
		}
		// The second field is a name in parentheses, which may hold anything;
		// utime and stime are the 14th and 15th.
		f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		for _, v := range f[11:13] {
			n, err := strconv.ParseInt(string(v), 10, 64)
			if err != nil {
				return 0, err
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / time.Duration(ticksPerSecond()), nil
}

// rss is the side's resident memory in MiB.
func (s *side) rss() (float64, error) {
	if err := s.alive(); err != nil {
		return 0, err
	}
	var kib float64
	for _, p := range s.procs {
		v, err := procField(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid), "VmRSS")
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseFloat(strings.TrimSuffix(v, " kB"), 64)
		if err != nil {
			return 0, err
		}
		kib += n
	}
	return kib / 1024, nil
}

// procField is the value of a line "name: value" of a file below /proc.
func procField(file, name string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("%s has no %s", file, name)
}

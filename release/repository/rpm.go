package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sassoftware/go-rpmutils"
)

// rpm writes a repository of RPM packages.
func (r *repository) rpm(dir string, paths []string) error {
	places := map[string]string{}
	var m metadata
	for _, p := range paths {
		pkg, err := readRPM(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		place := path.Join("packages", filepath.Base(p))
		if places[place] != "" {
			return fmt.Errorf("%s and %s have one name", places[place], p)
		}
		places[place], pkg.place = p, place
		m.add(pkg)
	}
	out, err := m.files(r.created)
	if err != nil {
		return err
	}
	if r.signer != nil {
		if _, out["repodata/repomd.xml.asc"], err = r.signer.sign(out["repodata/repomd.xml"]); err != nil {
			return err
		}
		out["repodata/repomd.xml.key"] = r.signer.public
	}
	if r.url != "" {
		out["kanzen.repo"] = r.repo()
	}
	return out.write(dir, places)
}

// repo is the file for /etc/yum.repos.d. The signature is that of the metadata, which has the checksums of the packages.
func (r *repository) repo() []byte {
	trust := "repo_gpgcheck=0\n"
	if r.signer != nil {
		trust = fmt.Sprintf("repo_gpgcheck=1\ngpgkey=%s/rpm/repodata/repomd.xml.key\n", r.url)
	}
	return fmt.Appendf(nil, "[kanzen]\nname=kanzen\nbaseurl=%s/rpm\nenabled=1\ngpgcheck=0\n%s", r.url, trust)
}

// rpmPackage is what metadata says of a package.
type rpmPackage struct {
	rpmutils.NEVRA
	place, sum                                                    string
	size, installed, archive                                      uint64
	built                                                         int64
	summary, description, packager, url                           string
	license, vendor, group, buildHost, source                     string
	headers                                                       rpmutils.HeaderRange
	provides, requires, conflicts, obsoletes, files, ghosts, dirs []entry
}

// entry is a file, or what a package provides or needs.
type entry struct {
	Name  string `xml:"name,attr"`
	Flags string `xml:"flags,attr,omitempty"`
	Epoch string `xml:"epoch,attr,omitempty"`
	Ver   string `xml:"ver,attr,omitempty"`
	Rel   string `xml:"rel,attr,omitempty"`
	Pre   string `xml:"pre,attr,omitempty"`
}

// readRPM reads the header of a package.
func readRPM(p string) (_ *rpmPackage, err error) {
	f, err := os.Open(p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h, err := rpmutils.ReadHeader(f)
	if err != nil {
		return nil, err
	}
	name, err := h.GetNEVRA()
	if err != nil {
		return nil, err
	}
	text := func(tag int) string { // one that is missing is empty
		if values, err := h.GetStrings(tag); err == nil && len(values) > 0 {
			return values[0]
		}
		return ""
	}
	number := func(tag, long int) uint64 {
		n, _ := h.GetUint64Fallback(tag, long)
		return n
	}
	out := &rpmPackage{
		NEVRA: *name, headers: h.GetRange(), built: int64(number(rpmutils.BUILDTIME, rpmutils.BUILDTIME)),
		installed: number(rpmutils.SIZE, rpmutils.LONGSIZE), archive: number(rpmutils.SIG_PAYLOADSIZE, rpmutils.SIG_LONGARCHIVESIZE),
		summary: text(rpmutils.SUMMARY), description: text(rpmutils.DESCRIPTION), packager: text(rpmutils.PACKAGER), url: text(rpmutils.URL),
		license: text(rpmutils.LICENSE), vendor: text(rpmutils.VENDOR), group: text(rpmutils.GROUP), buildHost: text(rpmutils.BUILDHOST), source: text(rpmutils.SOURCERPM),
		provides:  dependencies(h, rpmutils.PROVIDENAME, rpmutils.PROVIDEFLAGS, rpmutils.PROVIDEVERSION),
		requires:  dependencies(h, rpmutils.REQUIRENAME, rpmutils.REQUIREFLAGS, rpmutils.REQUIREVERSION),
		conflicts: dependencies(h, rpmutils.CONFLICTNAME, rpmutils.CONFLICTFLAGS, rpmutils.CONFLICTVERSION),
		obsoletes: dependencies(h, rpmutils.OBSOLETENAME, rpmutils.OBSOLETEFLAGS, rpmutils.OBSOLETEVERSION),
	}
	if err := out.listFiles(h); err != nil {
		return nil, err
	}
	var size int64
	size, out.sum, err = measure(p)
	out.size = uint64(size)
	return out, err
}

// isDirectory is of the modes of files.
const isDirectory = 0o040000

func (p *rpmPackage) listFiles(h *rpmutils.RpmHeader) error {
	files, err := h.GetFiles()
	if err != nil {
		return err
	}
	for _, f := range files {
		e := entry{Name: f.Name()}
		switch {
		case f.Mode()&0o170000 == isDirectory:
			p.dirs = append(p.dirs, e)
		case f.Flags()&rpmutils.RPMFILE_GHOST != 0:
			p.ghosts = append(p.ghosts, e)
		default:
			p.files = append(p.files, e)
		}
	}
	return nil
}

// The flags of dependencies that rpmutils does not name: they must be there before a script runs.
const prerequired = 1<<6 | 1<<9 | 1<<10

// dependencies reads what a package provides, requires and so on. What it requires of rpm itself is left out, as rpm answers for that.
func dependencies(h *rpmutils.RpmHeader, names, flags, versions int) (out []entry) {
	all, err := h.GetStrings(names)
	if err != nil {
		return nil // it has none
	}
	how, _ := h.GetUint32s(flags)
	which, _ := h.GetStrings(versions)
	seen := map[entry]bool{}
	for n, name := range all {
		e := entry{Name: name}
		if n < len(how) && n < len(which) {
			e.Flags = comparison(how[n])
			if e.Flags != "" {
				e.Epoch, e.Ver, e.Rel = splitVersion(which[n])
			}
			if names == rpmutils.REQUIRENAME && how[n]&prerequired != 0 {
				e.Pre = "1"
			}
		}
		if !strings.HasPrefix(name, "rpmlib(") && !seen[e] {
			seen[e] = true
			out = append(out, e)
		}
	}
	return out
}

func comparison(flags uint32) string {
	switch flags & (rpmutils.RPMSENSE_LESS | rpmutils.RPMSENSE_GREATER | rpmutils.RPMSENSE_EQUAL) {
	case rpmutils.RPMSENSE_LESS:
		return "LT"
	case rpmutils.RPMSENSE_GREATER:
		return "GT"
	case rpmutils.RPMSENSE_EQUAL:
		return "EQ"
	case rpmutils.RPMSENSE_LESS | rpmutils.RPMSENSE_EQUAL:
		return "LE"
	case rpmutils.RPMSENSE_GREATER | rpmutils.RPMSENSE_EQUAL:
		return "GE"
	}
	return ""
}

// splitVersion takes EPOCH:VERSION-RELEASE apart.
func splitVersion(text string) (epoch, version, release string) {
	epoch = "0"
	if before, after, ok := strings.Cut(text, ":"); ok {
		if _, err := strconv.Atoi(before); err == nil {
			epoch, text = before, after
		}
	}
	if at := strings.LastIndexByte(text, '-'); at >= 0 {
		return epoch, text[:at], text[at+1:]
	}
	return epoch, text, ""
}

package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"path"
	"strings"
	"time"
)

// The documents of a repository, in the order of repomd.xml.
const (
	commonSpace = "http://linux.duke.edu/metadata/common"
	rpmSpace    = "http://linux.duke.edu/metadata/rpm"
	filesSpace  = "http://linux.duke.edu/metadata/filelists"
	otherSpace  = "http://linux.duke.edu/metadata/other"
	repoSpace   = "http://linux.duke.edu/metadata/repo"
)

// metadata is what the documents say of all packages.
type metadata struct {
	primary   []primaryPackage
	filelists []listedPackage
	other     []listedPackage
}

type version struct {
	Epoch string `xml:"epoch,attr"`
	Ver   string `xml:"ver,attr"`
	Rel   string `xml:"rel,attr"`
}

// primaryPackage is a package in primary.xml: what is needed to choose and fetch it.
type primaryPackage struct {
	XMLName     xml.Name `xml:"package"`
	Type        string   `xml:"type,attr"`
	Name        string   `xml:"name"`
	Arch        string   `xml:"arch"`
	Version     version  `xml:"version"`
	Checksum    checksum `xml:"checksum"`
	Summary     string   `xml:"summary"`
	Description string   `xml:"description"`
	Packager    string   `xml:"packager"`
	URL         string   `xml:"url"`
	Time        struct {
		File  int64 `xml:"file,attr"`
		Build int64 `xml:"build,attr"`
	} `xml:"time"`
	Size struct {
		Package   uint64 `xml:"package,attr"`
		Installed uint64 `xml:"installed,attr"`
		Archive   uint64 `xml:"archive,attr"`
	} `xml:"size"`
	Location location `xml:"location"`
	Format   format   `xml:"format"`
}

type checksum struct {
	Type  string `xml:"type,attr"`
	PkgID string `xml:"pkgid,attr,omitempty"`
	Sum   string `xml:",chardata"`
}

type location struct {
	Href string `xml:"href,attr"`
}

type format struct {
	License   string `xml:"rpm:license"`
	Vendor    string `xml:"rpm:vendor"`
	Group     string `xml:"rpm:group"`
	BuildHost string `xml:"rpm:buildhost"`
	SourceRPM string `xml:"rpm:sourcerpm"`
	Headers   struct {
		Start int `xml:"start,attr"`
		End   int `xml:"end,attr"`
	} `xml:"rpm:header-range"`
	Provides  *entries `xml:"rpm:provides"`
	Requires  *entries `xml:"rpm:requires"`
	Conflicts *entries `xml:"rpm:conflicts"`
	Obsoletes *entries `xml:"rpm:obsoletes"`
	Files     []file   `xml:"file"`
}

type entries struct {
	Entries []entry `xml:"rpm:entry"`
}

func entriesOf(all []entry) *entries {
	if len(all) == 0 {
		return nil
	}
	return &entries{all}
}

type file struct {
	Type string `xml:"type,attr,omitempty"`
	Path string `xml:",chardata"`
}

// listedPackage is a package in filelists.xml and other.xml.
type listedPackage struct {
	XMLName xml.Name `xml:"package"`
	PkgID   string   `xml:"pkgid,attr"`
	Name    string   `xml:"name,attr"`
	Arch    string   `xml:"arch,attr"`
	Version version  `xml:"version"`
	Files   []file   `xml:"file"`
}

// add puts a package into all documents.
func (m *metadata) add(p *rpmPackage) {
	v := version{p.Epoch, p.Version, p.Release}
	one := primaryPackage{
		Type: "rpm", Name: p.Name, Arch: p.Arch, Version: v, Checksum: checksum{"sha256", "YES", p.sum}, Summary: p.summary, Description: p.description,
		Packager: p.packager, URL: p.url, Location: location{p.place},
		Format: format{
			License: p.license, Vendor: p.vendor, Group: p.group, BuildHost: p.buildHost, SourceRPM: p.source,
			Provides: entriesOf(p.provides), Requires: entriesOf(p.requires), Conflicts: entriesOf(p.conflicts), Obsoletes: entriesOf(p.obsoletes),
		},
	}
	one.Time.File, one.Time.Build = p.built, p.built
	one.Size.Package, one.Size.Installed, one.Size.Archive = p.size, p.installed, p.archive
	one.Format.Headers.Start, one.Format.Headers.End = p.headers.Start, p.headers.End
	listed := listedPackage{PkgID: p.sum, Name: p.Name, Arch: p.Arch, Version: v}
	for _, kind := range []struct {
		name  string
		files []entry
	}{{"", p.files}, {"dir", p.dirs}, {"ghost", p.ghosts}} {
		for _, f := range kind.files {
			listed.Files = append(listed.Files, file{kind.name, f.Name})
			if isPrimary(f.Name) {
				one.Format.Files = append(one.Format.Files, file{kind.name, f.Name})
			}
		}
	}
	m.primary, m.filelists = append(m.primary, one), append(m.filelists, listed)
	listed.Files = nil
	m.other = append(m.other, listed)
}

// isPrimary says whether packages may require a file without filelists.xml being read.
func isPrimary(name string) bool {
	return strings.HasPrefix(name, "/etc/") || strings.Contains(name, "bin/") || name == "/usr/lib/sendmail"
}

// data is a document in repomd.xml.
type data struct {
	Type         string   `xml:"type,attr"`
	Checksum     checksum `xml:"checksum"`
	OpenChecksum checksum `xml:"open-checksum"`
	Location     location `xml:"location"`
	Timestamp    int64    `xml:"timestamp"`
	Size         int      `xml:"size"`
	OpenSize     int      `xml:"open-size"`
}

// files returns repomd.xml and the documents that it names.
func (m *metadata) files(created time.Time) (files, error) {
	out := files{}
	repomd := struct {
		XMLName  xml.Name `xml:"repomd"`
		Space    string   `xml:"xmlns,attr"`
		RPM      string   `xml:"xmlns:rpm,attr"`
		Revision int64    `xml:"revision"`
		Data     []data   `xml:"data"`
	}{Space: repoSpace, RPM: rpmSpace, Revision: created.Unix()}
	count := len(m.primary)
	for _, d := range []struct {
		name string
		root any
	}{
		{"primary", struct {
			XMLName  xml.Name `xml:"metadata"`
			Space    string   `xml:"xmlns,attr"`
			RPM      string   `xml:"xmlns:rpm,attr"`
			Count    int      `xml:"packages,attr"`
			Packages []primaryPackage
		}{Space: commonSpace, RPM: rpmSpace, Count: count, Packages: m.primary}},
		{"filelists", list("filelists", filesSpace, m.filelists)},
		{"other", list("otherdata", otherSpace, m.other)},
	} {
		plain, err := document(d.root)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		small := zipped(plain)
		place := path.Join("repodata", sumOf(small)+"-"+d.name+".xml.gz") // of two releases a cache never has a mixture
		out[place] = small
		repomd.Data = append(repomd.Data, data{d.name, checksum{Type: "sha256", Sum: sumOf(small)}, checksum{Type: "sha256", Sum: sumOf(plain)},
			location{place}, created.Unix(), len(small), len(plain)})
	}
	content, err := document(repomd)
	out["repodata/repomd.xml"] = content
	return out, err
}

// list is the document that has a few words of each package.
func list(name, space string, packages []listedPackage) any {
	return struct {
		XMLName  xml.Name
		Space    string `xml:"xmlns,attr"`
		Count    int    `xml:"packages,attr"`
		Packages []listedPackage
	}{XMLName: xml.Name{Local: name}, Space: space, Count: len(packages), Packages: packages}
}

func document(root any) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(xml.Header)
	e := xml.NewEncoder(&out)
	e.Indent("", "  ")
	if err := e.Encode(root); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

package podspec

import "strings"

// pullPolicyTag returns the tag that determines an image's default pull policy: "latest" if the reference has neither
// tag nor digest, and "" if the reference is invalid.
func pullPolicyTag(image string) string {
	domain, rest := splitDomain(image)
	if domain == "" || isImageID(image) {
		return ""
	}
	name, tag, digest, ok := splitReference(rest)
	if !ok || len(domain)+1+len(name) > 255 || !isDomain(domain) || !isRepository(name) {
		return ""
	}
	if digest != "" && !isDigest(digest) {
		return ""
	}
	if tag == "" && digest == "" {
		return "latest"
	}
	return tag
}

// splitDomain splits off the registry of an image reference, with the common defaults of container tools: no registry
// means Docker Hub, where plain names are below "library/". It returns an empty domain for an invalid reference.
func splitDomain(image string) (domain, rest string) {
	const hub = "docker.io"
	domain, rest, found := strings.Cut(image, "/")
	if !found || !strings.ContainsAny(domain, ".:") && domain != "localhost" && strings.ToLower(domain) == domain {
		domain, rest = hub, image
	}
	if domain == "index.docker.io" {
		domain = hub
	}
	if domain == hub && !strings.Contains(rest, "/") {
		rest = "library/" + rest
	}
	return domain, rest
}

// splitReference splits "name[:tag][@digest]" and validates the tag.
func splitReference(s string) (name, tag, digest string, ok bool) {
	name, digest, hasDigest := strings.Cut(s, "@")
	if hasDigest && digest == "" {
		return "", "", "", false
	}
	name, tag, hasTag := strings.Cut(name, ":")
	if hasTag && !isTag(tag) {
		return "", "", "", false
	}
	return name, tag, digest, true
}

func isImageID(s string) bool {
	return len(s) == 64 && all(s, isLowerHex)
}

func isTag(s string) bool {
	if s == "" || len(s) > 128 || s[0] == '.' || s[0] == '-' {
		return false
	}
	return all(s, func(c byte) bool { return isAlphanumeric(c) || c == '_' || c == '.' || c == '-' })
}

// isDomain accepts "host[:port]" and "[ipv6][:port]".
func isDomain(s string) bool {
	host, port := s, ""
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return false
		}
		host, port = s[1:end], s[end+1:]
		if host == "" || !all(host, func(c byte) bool { return isHex(c) || c == ':' }) {
			return false
		}
		if port == "" {
			return true
		}
		return port[0] == ':' && len(port) > 1 && all(port[1:], isDigit)
	}
	host, port, hasPort := strings.Cut(host, ":")
	if hasPort && (port == "" || !all(port, isDigit)) {
		return false
	}
	for part := range strings.SplitSeq(host, ".") {
		if part == "" || part[0] == '-' || part[len(part)-1] == '-' {
			return false
		}
		if !all(part, func(c byte) bool { return isAlphanumeric(c) || c == '-' }) {
			return false
		}
	}
	return true
}

// isRepository accepts lower-case path components whose words are joined by one dot, one or two underscores, or any
// number of dashes.
func isRepository(s string) bool {
	for part := range strings.SplitSeq(s, "/") {
		if !isRepositoryPart(part) {
			return false
		}
	}
	return true
}

func isRepositoryPart(s string) bool {
	word := false // the previous character belongs to a word
	for i := 0; i < len(s); {
		if isLowerAlphanumeric(s[i]) {
			word = true
			i++
			continue
		}
		if !word {
			return false
		}
		word = false
		c, n := s[i], 1
		for i+n < len(s) && s[i+n] == c {
			n++
		}
		if c != '-' && (c != '.' || n > 1) && (c != '_' || n > 2) {
			return false
		}
		i += n
	}
	return word
}

// digestHex is the number of hex digits of each known digest algorithm.
var digestHex = map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}

func isDigest(s string) bool {
	algorithm, hex, _ := strings.Cut(s, ":")
	return len(hex) == digestHex[algorithm] && hex != "" && all(hex, isLowerHex)
}

func all(s string, is func(byte) bool) bool {
	for i := range len(s) {
		if !is(s[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool             { return '0' <= c && c <= '9' }
func isLowerHex(c byte) bool          { return isDigit(c) || 'a' <= c && c <= 'f' }
func isHex(c byte) bool               { return isLowerHex(c) || 'A' <= c && c <= 'F' }
func isLowerAlphanumeric(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'z' }
func isAlphanumeric(c byte) bool      { return isLowerAlphanumeric(c) || 'A' <= c && c <= 'Z' }

package jsonobject

import (
	"bytes"
	"encoding/json"
)

// lineSeparator begins the two characters beside ASCII that are escaped, U+2028 and U+2029, in UTF-8. ContainsAny is many times
// slower if it is asked for one that is not ASCII.
const lineSeparator = 0xe2

// AppendRaw appends a JSON document as encoding/json appends what a MarshalJSON method has returned: without white space and with HTML
// characters escaped. valid says that it is known to be valid. False: it is not valid.
func AppendRaw(dst, doc []byte, valid bool) ([]byte, bool) {
	if !valid && !Valid(doc) && !json.Valid(doc) {
		return nil, false
	}
	if !bytes.ContainsAny(doc, " \n\r\t<>&") && bytes.IndexByte(doc, lineSeparator) < 0 {
		return append(dst, doc...), true
	}
	var b bytes.Buffer
	if err := json.Compact(&b, doc); err != nil {
		return nil, false
	}
	was := b.Len()
	json.HTMLEscape(&b, b.Bytes()[:was])
	return append(dst, b.Bytes()[was:]...), true
}

package openapi

import "fmt"

// Parsed returns what a parser makes of a document. The parsers of OpenAPI documents panic on some that are not what they
// should be, such as a path whose item is a list; that is an error here, because extension servers send what they want.
func Parsed[T any](doc []byte, parse func(doc []byte) (T, error)) (parsed T, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("not an OpenAPI document: %v", fault)
		}
	}()
	return parse(doc)
}

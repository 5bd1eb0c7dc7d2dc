// Package server puts the parts of an API server together. New is the only
// function that knows all of them and reads top to bottom; Run starts them in
// a written order and stops them in reverse.
package server

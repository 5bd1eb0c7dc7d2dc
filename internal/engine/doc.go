// Package engine serves any Resource: one file a verb, the same for built-in
// kinds, custom resources and extensions.
//
// A request comes from the route table as an Endpoint (a Resource in one of its
// versions) and a request.Info. Reads (get.go, list.go, watch.go) work on the
// store's items, which are bytes; an item is decoded only to make an encoding
// that is not cached (encode.go), or to print it as a table. Writes (create.go,
// update.go, patch.go, apply.go, delete.go) decode, decide under the resource's
// Rules and admission, and store in one transaction (write.go). Verbs return
// errors; Endpoint.ServeHTTP writes them.
//
// Inside the engine an object is always of the Resource's hub version and
// carries that version's apiVersion and kind. Conversion happens where bytes
// come in (decode.go) and go out (encode.go).
package engine

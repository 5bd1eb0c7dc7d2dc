// Package exports lets a plane offer kinds that it defines to other planes. An Export in the provider's plane names the kinds, who may
// have them, and which other kinds of a consumer it asks for (claims). A Binding in a consumer's plane takes an export and says which
// claims it accepts.
//
// What holds is in one place, the records: a key of the log for each binding that is in force (record.go). The controller writes them
// (exports.go, offer.go, binding.go); everything else goes by them: the provider's view of all planes (projection.go, view.go), requests to
// single planes (serve.go), and what writes of the provider may be about (guard.go). Records and objects are in the same log, so at
// each revision it is certain which objects a provider sees.
//
// Therefore provider and consumer of a binding in force lie in the same log. Of several logs in which planes lie each has exports of its own
// (Exports), which read that log only: one that is away holds up no other. What a binding says of an export in another log it knows from
// the memory of the exports there. A record is written on the condition that both planes still lie in its log, by keys there that
// a move replaces (Planes.Stay), and a plane of which there are records does not move.
//
// The provider's view is a control plane's engine on a projection of the log: of the keys of all planes those of the kinds that a record
// makes visible. It is loaded and followed by one range and one watch, however many planes there are, and wakes none.
package exports

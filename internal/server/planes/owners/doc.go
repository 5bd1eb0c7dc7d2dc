// Package owners says which of the servers that share a log has each plane, and passes requests for planes from one server to another.
//
// A plane is awake on one server at a time, its owner. Two kinds of keys in the log say so:
//
//   - /kanzen/servers/NAME/EPOCH: a server that runs, with the certificate that it shows to the others. It ends by itself unless it is
//     renewed. A server that is started anew has another epoch, so what it had before is nobody's.
//   - /kanzen/owners/UID: the server that has a plane. Without such a key the plane is asleep. If the server is gone, or the value is
//     empty, nobody has the plane, though it should be awake: another server takes it.
//
// Each transaction of an owner in the log holds only while the plane's key is as it was when the server became the owner (Fence). So
// whatever a server believes, and however long it was away, no two write.
//
// Servers find and trust each other by the log alone: whoever can write there can do everything anyway. A request is passed on with all
// that its client has sent, and with the client's address and certificates, which are believed only on connections between servers.
package owners

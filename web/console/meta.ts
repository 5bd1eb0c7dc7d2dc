// What the page reads of the API besides the flight recorder's types, which answers.gen.ts has.

export interface Meta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  generation?: number;
  finalizers?: string[];
  annotations?: { [key: string]: string };
  ownerReferences?: OwnerReference[];
  managedFields?: ManagedFields[];
}

export interface OwnerReference { apiVersion: string; kind: string; name: string; uid: string }

export interface ManagedFields { manager?: string; operation?: string; subresource?: string; time?: string; fieldsV1?: FieldSet }

export interface FieldSet { [element: string]: FieldSet }

export interface List<T> { kind?: string; metadata: { continue?: string; resourceVersion?: string }; items: T[] }

export interface Condition { type?: string; status?: string; reason?: string; message?: string; lastTransitionTime?: string }

// Obj is an object of any kind.
export interface Obj {
  apiVersion?: string;
  kind?: string;
  metadata: Meta;
  spec?: { finalizers?: string[] };
  status?: { phase?: unknown; conditions?: unknown; observedGeneration?: number };
  data?: { [key: string]: unknown };
  stringData?: { [key: string]: unknown };
}

export interface ObjectEvent {
  metadata: Meta;
  type?: string;
  reason?: string;
  message?: string;
  note?: string;
  count?: number;
  eventTime?: string | null;
  firstTimestamp?: string | null;
  lastTimestamp?: string | null;
  series?: { count?: number; lastObservedTime?: string };
  reportingComponent?: string;
  source?: { component?: string };
  involvedObject?: { apiVersion?: string; kind?: string; namespace?: string; name?: string; uid?: string };
}

// ObjectTable is how the server answers who wants kubectl's columns.
export interface ObjectTable { metadata?: { continue?: string; resourceVersion?: string }; columnDefinitions?: ColumnDefinition[]; rows?: TableRow[] }

export interface ColumnDefinition { name: string; type: string; format?: string; description?: string; priority?: number }

export interface TableRow { cells: unknown[]; object?: { metadata?: Meta } }

export interface WatchEvent { type: string; object: ObjectTable }

// GroupDiscovery is what discovery says of a group.
export interface GroupDiscovery {
  metadata?: { name?: string };
  versions?: { version: string; resources?: ResourceDiscovery[] }[];
}

export interface ResourceDiscovery {
  resource: string;
  responseKind?: { kind?: string };
  scope?: string;
  singularResource?: string;
  shortNames?: string[];
  verbs?: string[];
}

// Revision is a change of an object that the server's history holds.
export interface Revision {
  resourceVersion: string;
  time: string;
  operation: string;
  uid?: string;
  user?: string;
  userAgent?: string;
  managers?: string[];
  changes?: { path: string; old?: unknown; new?: unknown }[];
  moreChanges?: boolean;
  unreadable?: string;
}

export interface RevisionList { kind: string; since: string; items?: Revision[]; more?: boolean }

// Amount counts what a kind, a namespace or a kind in a namespace has in the database.
export interface Amount { name?: string; namespace?: string; objects: number; bytes: number; oldRecords: number; oldBytes: number; grown?: number }

// Space says what takes the room of the database.
export interface Space {
  revision: number;
  keys: number;
  records: Amount;
  resources: Amount[];
  namespaces?: Amount[];
  placed?: Amount[];
  planes?: Amount[];
  largest?: { key: string; bytes: number; resource?: string; namespace?: string; name?: string }[];
  history?: { disk: number };
  since?: string;
  seconds: number;
}

// Who says who looks, and at what.
export interface Who {
  user: string;
  groups?: string[];
  version: string;
  session?: boolean;
  started?: string;
  recorded?: { server: string; from: string; to: string };
}

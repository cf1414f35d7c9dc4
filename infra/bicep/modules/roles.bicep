metadata name = 'Built-in roles'
metadata description = 'Ids of the built-in roles that LUCIUS assigns, by name. The module deploys nothing.'

@export()
@description('Reads, writes and deletes blobs and containers, and sets their owners, as the Functions host requires.')
var storageBlobDataOwner = 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b'

@export()
@description('Reads, writes and deletes blobs and containers.')
var storageBlobDataContributor = 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'

@export()
@description('Reads blobs and lists containers.')
var storageBlobDataReader = '2a2b9908-6ea1-4ae2-8e65-a410df84e7d1'

@export()
@description('Gets a user delegation key, which signs links to blobs that the identity can read.')
var storageBlobDelegator = 'db58b8e5-c6ad-4a2a-8342-4190687cbf4a'

@export()
@description('Reads, writes and deletes queues and their messages.')
var storageQueueDataContributor = '974c5e8b-45b9-4653-ba55-5f855dd0fb88'

@export()
@description('Reads, writes and deletes tables and their rows.')
var storageTableDataContributor = '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3'

@export()
@description('Sends and receives messages, and manages and deletes queues and topics. Target-based scaling needs the right to manage.')
var serviceBusDataOwner = '090c5cfd-751d-490a-894a-3ce6f1109419'

@export()
@description('Receives messages.')
var serviceBusDataReceiver = '4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0'

@export()
@description('Sends messages.')
var serviceBusDataSender = '69a216fc-b8fb-44d8-bc22-1f3c2cd27a39'

@export()
@description('Reads key-values.')
var appConfigurationDataReader = '516239f1-63e1-4d78-a4de-a74fb236a071'

@export()
@description('Reads, writes and deletes key-values.')
var appConfigurationDataOwner = '5ae67dd6-50cb-40e7-96ff-dc2bfa4b606b'

@export()
@description('Reads the values of secrets.')
var keyVaultSecretsUser = '4633458b-17de-408a-b874-0445c86b69e6'

@export()
@description('Reads, writes and deletes secrets.')
var keyVaultSecretsOfficer = 'b86a8fe4-44ce-4948-aee5-eccb2c155cd7'

@export()
@description('Reads the public part of a key, updates and backs up the key, and signs, verifies, encrypts, decrypts, wraps and unwraps with the key.')
var keyVaultCryptoUser = '12338af0-0e69-4776-bea7-57ae8d297424'

@export()
@description('Publishes telemetry.')
var monitoringMetricsPublisher = '3913510d-42f4-4e42-8a64-420c390055eb'

@export()
@description('Runs and reads orchestrations of a task hub.')
var durableTaskDataContributor = '0ad04412-c4d5-4796-b79c-f76d14c8d402'

@export()
@description('Pulls images of a registry.')
var acrPull = '7f951dda-4ed3-4680-a7ca-43fe172d538d'

/* The plugin's side of a registration. TensorFlow loads this extension by its path, and asks
 * TF_InitPlugin what it offers. */
#ifndef TFIO_STORE_FS_PLUGIN_H
#define TFIO_STORE_FS_PLUGIN_H

/* Sets the scheme that the next TF_InitPlugin offers. NULL for none. The text is not copied. */
void fs_plugin_offer(const char *scheme);

#endif
